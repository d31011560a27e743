-- Jobs, attempts, events, outputs, workers. Times are milliseconds since the epoch, UTC.

CREATE TABLE jobs (
    id TEXT PRIMARY KEY,
    tenant TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('queued', 'processing', 'completed', 'failed', 'cancelled')),
    reason TEXT,
    priority INTEGER NOT NULL CHECK (priority BETWEEN 1 AND 10),
    rank INTEGER NOT NULL,
    node_types BLOB NOT NULL,
    timeout_seconds REAL NOT NULL,
    expected_seconds REAL NOT NULL,
    submitted_at INTEGER NOT NULL,
    started_at INTEGER,
    completed_at INTEGER,
    attempts INTEGER NOT NULL DEFAULT 0,
    retries INTEGER NOT NULL DEFAULT 0,
    worker_id TEXT,
    cancel_requested INTEGER NOT NULL DEFAULT 0,
    progress REAL NOT NULL DEFAULT 0,
    current_node TEXT,
    completed_nodes INTEGER NOT NULL DEFAULT 0,
    total_nodes INTEGER NOT NULL DEFAULT 0,
    fault BLOB,
    last_event INTEGER NOT NULL DEFAULT 0,
    CHECK ((state IN ('completed', 'failed', 'cancelled')) = (completed_at IS NOT NULL)),
    CHECK ((state = 'processing') <= (worker_id IS NOT NULL)),
    CHECK ((state = 'failed') = (fault IS NOT NULL))
) STRICT, WITHOUT ROWID;

CREATE INDEX jobs_in_queue ON jobs (rank, id) WHERE state = 'queued';
CREATE INDEX jobs_processing ON jobs (id) WHERE state = 'processing';
CREATE INDEX jobs_of_tenant ON jobs (tenant, id);
CREATE INDEX jobs_of_tenant_by_state ON jobs (tenant, state, id);

CREATE TRIGGER jobs_transition BEFORE UPDATE OF state ON jobs
WHEN old.state <> new.state AND NOT (
    (old.state = 'queued' AND new.state IN ('processing', 'cancelled', 'failed'))
    OR (old.state = 'processing' AND new.state IN ('completed', 'failed', 'cancelled', 'queued'))
)
BEGIN
    SELECT raise(ABORT, 'illegal transition of a job');
END;

-- Apart from the job, so that a change of state does not rewrite the whole graph.
CREATE TABLE job_prompts (
    job_id TEXT PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,
    prompt BLOB NOT NULL
) STRICT;

CREATE TABLE attempts (
    job_id TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    worker_id TEXT NOT NULL,
    token TEXT NOT NULL,
    prompt_id TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('running', 'completed', 'failed', 'cancelled', 'lost')),
    owner TEXT,
    lease_expires_at INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    ended_at INTEGER,
    cause TEXT,
    PRIMARY KEY (job_id, number),
    CHECK ((state = 'running') = (ended_at IS NULL))
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX attempts_by_token ON attempts (token);
CREATE UNIQUE INDEX attempts_one_running ON attempts (job_id) WHERE state = 'running';
CREATE UNIQUE INDEX attempts_one_completed ON attempts (job_id) WHERE state = 'completed';
CREATE INDEX attempts_by_lease ON attempts (lease_expires_at) WHERE state = 'running';
CREATE INDEX attempts_of_worker ON attempts (worker_id) WHERE state = 'running';

CREATE TABLE events (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    job_id TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    type TEXT NOT NULL,
    at INTEGER NOT NULL,
    data BLOB NOT NULL,
    UNIQUE (job_id, number)
) STRICT;

CREATE TABLE outputs (
    job_id TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    id TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    position INTEGER NOT NULL,
    is_partial INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    node_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    filename TEXT NOT NULL,
    subfolder TEXT NOT NULL,
    is_temporary INTEGER NOT NULL,
    content_type TEXT NOT NULL,
    size INTEGER NOT NULL,
    sha256 TEXT NOT NULL,
    blob_key TEXT NOT NULL,
    PRIMARY KEY (job_id, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE catalogs (
    fingerprint TEXT PRIMARY KEY,
    object_info BLOB NOT NULL
) STRICT;

CREATE TABLE workers (
    id TEXT PRIMARY KEY,
    driver TEXT NOT NULL,
    endpoint TEXT,
    added_at INTEGER NOT NULL,
    catalog_fingerprint TEXT REFERENCES catalogs (fingerprint)
) STRICT;

CREATE UNIQUE INDEX workers_by_endpoint ON workers (endpoint) WHERE endpoint IS NOT NULL;

CREATE TABLE probes (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    at INTEGER NOT NULL
) STRICT;
