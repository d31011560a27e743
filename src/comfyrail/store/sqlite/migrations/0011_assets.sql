-- Files that users have given: inputs of jobs, under names of their own.
CREATE TABLE assets (
    id TEXT PRIMARY KEY,
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    content_type TEXT NOT NULL,
    size INTEGER NOT NULL,
    sha256 TEXT NOT NULL,
    blake3 TEXT NOT NULL,
    blob_key TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER
) STRICT, WITHOUT ROWID;

-- An output is found by its id alone where outputs and assets are one kind of thing.
CREATE INDEX outputs_by_id ON outputs (id);

CREATE INDEX assets_of_tenant ON assets (tenant, id);
CREATE INDEX assets_by_name ON assets (tenant, name, id);
CREATE INDEX assets_by_blake3 ON assets (tenant, blake3);
CREATE INDEX assets_by_sha256 ON assets (sha256);
CREATE INDEX assets_by_blob ON assets (blob_key);
CREATE INDEX assets_by_expiry ON assets (expires_at) WHERE expires_at IS NOT NULL;

ALTER TABLE outputs ADD COLUMN blake3 TEXT;
CREATE INDEX outputs_by_blake3 ON outputs (blake3) WHERE blake3 IS NOT NULL;

-- What jobs that have not ended need: `name` is in the input folder.
CREATE TABLE job_inputs (
    job_id TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    blob_key TEXT NOT NULL,
    asset_id TEXT,
    PRIMARY KEY (job_id, name)
) STRICT, WITHOUT ROWID;

CREATE INDEX job_inputs_by_name ON job_inputs (name);
CREATE INDEX job_inputs_by_blob ON job_inputs (blob_key);
CREATE INDEX job_inputs_by_asset ON job_inputs (asset_id) WHERE asset_id IS NOT NULL;

CREATE TRIGGER job_inputs_of_ended_jobs AFTER UPDATE OF state ON jobs
WHEN new.state IN ('completed', 'failed', 'cancelled')
BEGIN
    DELETE FROM job_inputs WHERE job_id = new.id;
END;
