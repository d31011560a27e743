-- Whom a job tells of its way, by itself: 1 its own webhook, 2 uploads of its outputs, 3 both.
ALTER TABLE jobs ADD COLUMN tells INTEGER NOT NULL DEFAULT 0;
-- Whether its end has reached its own webhook; NULL: it has none, or nothing was due yet.
ALTER TABLE jobs ADD COLUMN webhook_delivered INTEGER;

-- Those of an account (job_id NULL), and a job's own. `address`: whose tries are counted together.
-- `patience`: milliseconds from an event to its last try. Secrets must sign, so they are kept as
-- they are; NULL: that of the tenant. `made_by`: the user of the table of users who has made or last
-- changed it. `failing_days`: on how many days it has failed since its last success. `dropped`: events
-- that it was not told because too much waited.
CREATE TABLE endpoints (
    id TEXT PRIMARY KEY,
    tenant TEXT NOT NULL,
    job_id TEXT UNIQUE REFERENCES jobs (id) ON DELETE CASCADE,
    url TEXT NOT NULL,
    address TEXT NOT NULL,
    settings BLOB NOT NULL,
    patience INTEGER NOT NULL,
    secret TEXT,
    previous_secret TEXT,
    previous_until INTEGER,
    is_enabled INTEGER NOT NULL DEFAULT 1,
    disabled_reason TEXT,
    created_at INTEGER NOT NULL,
    changed_at INTEGER NOT NULL,
    failing_since INTEGER,
    failing_days INTEGER NOT NULL DEFAULT 0,
    last_failed_at INTEGER,
    last_success_at INTEGER,
    made_by TEXT,
    dropped INTEGER NOT NULL DEFAULT 0,
    CHECK ((previous_secret IS NULL) = (previous_until IS NULL))
) STRICT;

CREATE INDEX endpoints_of_tenant ON endpoints (tenant, id) WHERE job_id IS NULL;

CREATE TABLE signing_secrets (
    tenant TEXT PRIMARY KEY,
    secret TEXT NOT NULL,
    previous_secret TEXT,
    previous_until INTEGER,
    CHECK ((previous_secret IS NULL) = (previous_until IS NULL))
) STRICT;

-- What is to be told, and what was. Of those of one job to one endpoint only the first that is
-- pending has a `next_at`: the others wait behind it. `failures`: tries in vain since it was last
-- begun; `expires_at`: when all its tries would have been over.
CREATE TABLE deliveries (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL CHECK (kind IN ('event', 'upload', 'test')),
    tenant TEXT NOT NULL,
    endpoint_id TEXT,
    address TEXT NOT NULL,
    job_id TEXT REFERENCES jobs (id) ON DELETE CASCADE,
    event_sequence INTEGER,
    number INTEGER,
    type TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('pending', 'delivered', 'dead', 'cancelled')),
    attempts INTEGER NOT NULL DEFAULT 0,
    failures INTEGER NOT NULL DEFAULT 0,
    next_at INTEGER,
    expires_at INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    settled_at INTEGER,
    last_status INTEGER,
    last_error TEXT,
    target BLOB,
    CHECK ((kind = 'upload') = (target IS NOT NULL)),
    CHECK ((state = 'pending') = (settled_at IS NULL)),
    CHECK (state = 'pending' OR next_at IS NULL)
) STRICT;

CREATE INDEX deliveries_due ON deliveries (address, next_at, sequence)
    WHERE state = 'pending' AND next_at IS NOT NULL;
CREATE INDEX deliveries_due_at ON deliveries (next_at, address)
    WHERE state = 'pending' AND next_at IS NOT NULL;
CREATE INDEX deliveries_heads ON deliveries (endpoint_id, job_id)
    WHERE state = 'pending' AND next_at IS NOT NULL;
CREATE INDEX deliveries_in_line ON deliveries (endpoint_id, job_id, sequence)
    WHERE state = 'pending';
CREATE INDEX deliveries_running_out ON deliveries (address, expires_at) WHERE state = 'pending';
CREATE INDEX deliveries_dead ON deliveries (tenant, sequence) WHERE state = 'dead';
CREATE INDEX deliveries_of_tenant ON deliveries (tenant, state, sequence);
CREATE INDEX deliveries_of_endpoint ON deliveries (endpoint_id, sequence);
CREATE INDEX deliveries_of_job ON deliveries (job_id, sequence);
CREATE INDEX deliveries_settled ON deliveries (settled_at) WHERE settled_at IS NOT NULL;

-- How much waits for each tenant.
CREATE TABLE pending_deliveries (
    tenant TEXT PRIMARY KEY,
    pending INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TRIGGER count_new_delivery AFTER INSERT ON deliveries WHEN NEW.state = 'pending' BEGIN
    INSERT INTO pending_deliveries (tenant, pending) VALUES (NEW.tenant, 1)
    ON CONFLICT (tenant) DO UPDATE SET pending = pending + 1;
END;

CREATE TRIGGER count_changed_delivery AFTER UPDATE OF state ON deliveries
WHEN (OLD.state = 'pending') <> (NEW.state = 'pending') BEGIN
    INSERT INTO pending_deliveries (tenant, pending) VALUES (NEW.tenant, 1)
    ON CONFLICT (tenant) DO UPDATE
    SET pending = pending + CASE WHEN NEW.state = 'pending' THEN 1 ELSE -1 END;
END;

CREATE TRIGGER count_deleted_delivery AFTER DELETE ON deliveries WHEN OLD.state = 'pending' BEGIN
    UPDATE pending_deliveries SET pending = pending - 1 WHERE tenant = OLD.tenant;
END;

-- As it was sent the first time: every try has the same bytes.
CREATE TABLE delivery_bodies (
    sequence INTEGER PRIMARY KEY REFERENCES deliveries (sequence) ON DELETE CASCADE,
    content_type TEXT NOT NULL,
    body BLOB NOT NULL
) STRICT;

CREATE TABLE delivery_tries (
    sequence INTEGER NOT NULL REFERENCES deliveries (sequence) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    at INTEGER NOT NULL,
    seconds REAL NOT NULL,
    status INTEGER,
    error TEXT,
    reply BLOB,
    PRIMARY KEY (sequence, number)
) STRICT, WITHOUT ROWID;
