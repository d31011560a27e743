-- Through which door a job came, and what that door must remember of it.
ALTER TABLE jobs ADD COLUMN surface TEXT NOT NULL DEFAULT 'v1';
ALTER TABLE jobs ADD COLUMN origin_key TEXT;
ALTER TABLE job_prompts ADD COLUMN origin BLOB;

CREATE INDEX jobs_of_surface ON jobs (tenant, surface, origin_key, id);

-- Answers to requests with an idempotency key. Without a status: the request is under way.
CREATE TABLE replies (
    tenant TEXT NOT NULL,
    key TEXT NOT NULL,
    fingerprint TEXT,
    owner TEXT NOT NULL,
    status INTEGER,
    headers BLOB,
    body BLOB,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX replies_by_age ON replies (created_at);

-- Documents of a tenant by area and name: states of runs, files and settings of the editor.
CREATE TABLE documents (
    tenant TEXT NOT NULL,
    area TEXT NOT NULL,
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    content BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    modified_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, area, name)
) STRICT, WITHOUT ROWID;
