-- Which workflow of the library a job ran, with its version: poster@3.
ALTER TABLE jobs ADD COLUMN workflow_id TEXT;
CREATE INDEX jobs_of_workflow ON jobs (tenant, workflow_id, id) WHERE workflow_id IS NOT NULL;

-- Outputs are found without their jobs, and have a life of their own. `next_step_at`: when the next
-- tier begins, or the end; `retention`: the last tier that
-- it sees; NULL: as the server is set up.
ALTER TABLE outputs ADD COLUMN tenant TEXT NOT NULL DEFAULT '';
ALTER TABLE outputs ADD COLUMN tier TEXT NOT NULL DEFAULT 'immediate'
    CHECK (tier IN ('immediate', 'standard', 'archive', 'glacier'));
ALTER TABLE outputs ADD COLUMN retention TEXT
    CHECK (retention IN ('immediate', 'standard', 'archive', 'glacier'));
ALTER TABLE outputs ADD COLUMN next_step_at INTEGER;
ALTER TABLE outputs ADD COLUMN gone_at INTEGER;
ALTER TABLE outputs ADD COLUMN gone_reason TEXT
    CHECK ((gone_reason IS NULL) = (gone_at IS NULL));

UPDATE outputs SET
    tenant = (SELECT tenant FROM jobs WHERE jobs.id = outputs.job_id),
    next_step_at = created_at + 86400000;

CREATE INDEX outputs_of_tenant ON outputs (tenant, id);
CREATE INDEX outputs_by_step ON outputs (next_step_at) WHERE next_step_at IS NOT NULL;
CREATE INDEX outputs_there ON outputs (id) WHERE gone_at IS NULL;

CREATE TRIGGER outputs_are_gone AFTER UPDATE OF gone_at ON outputs
WHEN old.gone_at IS NULL AND new.gone_at IS NOT NULL
BEGIN
    UPDATE stored_outputs SET bytes = bytes - old.size WHERE tenant = old.tenant;
END;

DROP TRIGGER outputs_go;
CREATE TRIGGER outputs_go AFTER DELETE ON outputs
WHEN old.gone_at IS NULL
BEGIN
    UPDATE stored_outputs SET bytes = bytes - old.size
    WHERE tenant = (SELECT tenant FROM jobs WHERE id = old.job_id);
END;

DROP TRIGGER jobs_go;
CREATE TRIGGER jobs_go BEFORE DELETE ON jobs
BEGIN
    UPDATE stored_outputs SET bytes = bytes - (
        SELECT coalesce(sum(size), 0) FROM outputs WHERE job_id = old.id AND gone_at IS NULL
    )
    WHERE tenant = old.tenant;
    DELETE FROM job_texts WHERE rowid = (SELECT number FROM indexed_jobs WHERE job_id = old.id);
END;

-- The texts of a job's graph, by which its outputs are found.
CREATE VIRTUAL TABLE job_texts USING fts5 (tenant, text, tokenize = 'unicode61 remove_diacritics 2');
CREATE TABLE indexed_jobs (
    number INTEGER PRIMARY KEY,
    job_id TEXT NOT NULL UNIQUE REFERENCES jobs (id) ON DELETE CASCADE
) STRICT;

-- Jobs whose outputs are not in that index yet.
CREATE TABLE jobs_to_index (
    job_id TEXT PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

INSERT INTO jobs_to_index (job_id) SELECT DISTINCT job_id FROM outputs;
