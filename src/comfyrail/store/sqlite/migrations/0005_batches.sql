-- Many jobs under one id. While a batch is filling its jobs are held and nobody knows of it; from
-- opening on it is accepted.
CREATE TABLE batches (
    id TEXT PRIMARY KEY,
    tenant TEXT NOT NULL,
    tier TEXT NOT NULL,
    name TEXT,
    kind TEXT NOT NULL CHECK (kind IN ('list', 'grid', 'variants', 'search')),
    stage TEXT NOT NULL CHECK (stage IN ('filling', 'opening', 'open')),
    planned INTEGER NOT NULL CHECK (planned > 0),
    stop_on_error INTEGER NOT NULL,
    submitted_at INTEGER NOT NULL,
    cancelled_at INTEGER,
    stopped_at INTEGER,
    -- The server still has something to do about it: open, stop, search.
    is_watched INTEGER NOT NULL,
    search BLOB,
    CHECK ((kind = 'search') = (search IS NOT NULL))
) STRICT, WITHOUT ROWID;

CREATE INDEX batches_of_tenant ON batches (tenant, id);
CREATE INDEX batches_watched ON batches (id) WHERE is_watched = 1;
CREATE INDEX batches_filling ON batches (id) WHERE stage = 'filling';

-- What a search makes its jobs of: apart, it may be megabytes.
CREATE TABLE batch_requests (
    batch_id TEXT PRIMARY KEY REFERENCES batches (id) ON DELETE CASCADE,
    request BLOB NOT NULL
) STRICT;

CREATE TABLE batch_items (
    batch_id TEXT NOT NULL REFERENCES batches (id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    job_id TEXT,
    name TEXT,
    parameters BLOB NOT NULL,
    score REAL,
    note TEXT,
    -- 0 while a search waits for what the trial is worth.
    is_settled INTEGER NOT NULL,
    PRIMARY KEY (batch_id, number)
) STRICT, WITHOUT ROWID;

CREATE INDEX batch_items_unsettled ON batch_items (batch_id, number) WHERE is_settled = 0;
CREATE INDEX batch_items_noted ON batch_items (batch_id, number) WHERE note IS NOT NULL;
CREATE INDEX batch_items_unmade ON batch_items (batch_id) WHERE job_id IS NULL;
CREATE INDEX batch_items_by_score ON batch_items (batch_id, score, number)
    WHERE score IS NOT NULL;

CREATE TABLE batch_keys (
    tenant TEXT NOT NULL,
    key TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    batch_id TEXT NOT NULL REFERENCES batches (id) ON DELETE CASCADE,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX batch_keys_by_age ON batch_keys (created_at);
CREATE INDEX batch_keys_of_batch ON batch_keys (batch_id);

-- All that a look at a batch adds up, so that no row of its jobs is read for it.
CREATE INDEX jobs_of_batch_by_state
    ON jobs (batch_id, state, started_at, completed_at, cost, expected_seconds)
    WHERE batch_id IS NOT NULL;

-- Whoever removes a job removes its key: without walking through all keys.
CREATE INDEX idempotency_keys_of_job ON idempotency_keys (job_id);
