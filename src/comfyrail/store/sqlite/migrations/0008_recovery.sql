-- How attempts failed, and how their jobs were tried again.
ALTER TABLE jobs ADD COLUMN max_retries INTEGER NOT NULL DEFAULT 3;
ALTER TABLE jobs ADD COLUMN bounces INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN runs_alone INTEGER NOT NULL DEFAULT 0;
ALTER TABLE attempts ADD COLUMN fault BLOB;
ALTER TABLE attempts ADD COLUMN recovery TEXT;
ALTER TABLE attempts ADD COLUMN retry_delay REAL;

-- Blobs that no output refers to are removed.
CREATE INDEX outputs_by_blob ON outputs (blob_key);
