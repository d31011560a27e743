-- The queue by lanes: class, tenant and group (jobs that ask the same of a worker).
CREATE TABLE job_groups (
    key TEXT PRIMARY KEY,
    needs BLOB NOT NULL
) STRICT;

ALTER TABLE jobs ADD COLUMN queue_class TEXT NOT NULL DEFAULT 'medium'
    CHECK (queue_class IN ('high', 'medium', 'low', 'batch'));
ALTER TABLE jobs ADD COLUMN queue_group TEXT NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN effective_priority REAL NOT NULL DEFAULT 5;
ALTER TABLE jobs ADD COLUMN not_before INTEGER;
-- Set while the job may not start yet.
ALTER TABLE jobs ADD COLUMN held_until INTEGER;
ALTER TABLE jobs ADD COLUMN queue_timeout REAL;
-- In the time of the queue, which stands still while it is paused.
ALTER TABLE jobs ADD COLUMN expires_at INTEGER;
ALTER TABLE jobs ADD COLUMN batch_id TEXT;
ALTER TABLE jobs ADD COLUMN batch_index INTEGER;
ALTER TABLE jobs ADD COLUMN batch_name TEXT;

-- Jobs of before are in the groups of their node types.
UPDATE jobs
SET queue_class = CASE WHEN priority >= 8 THEN 'high' WHEN priority >= 4 THEN 'medium' ELSE 'low' END,
    effective_priority = priority,
    queue_group = substr(sha256_hex(
        '{"labels":{},"memory":0,"models":[],"node_types":' || CAST(node_types AS TEXT)
        || ',"video_memory":0}'
    ), 1, 32);
INSERT OR IGNORE INTO job_groups (key, needs)
SELECT queue_group, CAST(
    '{"labels":{},"memory":0,"models":[],"node_types":' || CAST(node_types AS TEXT)
    || ',"video_memory":0}' AS BLOB
)
FROM jobs
WHERE state IN ('queued', 'processing');
ALTER TABLE jobs DROP COLUMN node_types;

DROP INDEX jobs_in_queue;
DROP INDEX jobs_processing;
CREATE INDEX jobs_in_queue ON jobs (rank, id) WHERE state = 'queued' AND held_until IS NULL;
-- With all that a round of the scheduler reads: a million jobs are not looked up one by one.
CREATE INDEX jobs_in_lanes ON jobs (
    queue_class, tenant, queue_group, rank, id, expected_seconds, submitted_at, not_before,
    state, held_until
)
    WHERE state = 'queued' AND held_until IS NULL;
CREATE INDEX jobs_held ON jobs (held_until) WHERE state = 'queued' AND held_until IS NOT NULL;
CREATE INDEX jobs_expiring ON jobs (expires_at) WHERE state = 'queued' AND expires_at IS NOT NULL;
CREATE INDEX jobs_processing ON jobs (tenant, id) WHERE state = 'processing';
CREATE INDEX jobs_of_batch ON jobs (batch_id, batch_index) WHERE batch_id IS NOT NULL;

CREATE TABLE idempotency_keys (
    tenant TEXT NOT NULL,
    key TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    job_id TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_keys_by_age ON idempotency_keys (created_at);

CREATE TABLE queue_state (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    paused_at INTEGER,
    reason TEXT,
    -- Milliseconds of all earlier pauses: what expires does so by the time without them.
    paused_total INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT INTO queue_state (id) VALUES (1);

-- Why an attempt is where it is: score, cost as expected, models that were warm.
ALTER TABLE attempts ADD COLUMN placement BLOB;

ALTER TABLE workers ADD COLUMN pool TEXT;
ALTER TABLE workers ADD COLUMN config BLOB;
ALTER TABLE workers ADD COLUMN labels BLOB;
ALTER TABLE workers ADD COLUMN is_cordoned INTEGER NOT NULL DEFAULT 0;
