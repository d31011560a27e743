-- Who may do what.
CREATE TABLE users (
    id TEXT PRIMARY KEY,
    tenant TEXT NOT NULL,
    tier TEXT NOT NULL,
    permissions BLOB NOT NULL,
    quotas BLOB NOT NULL,
    is_disabled INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX users_of_tenant ON users (tenant, id);

-- Of a key's secret only the SHA-256 is here. Keys outlive their users, for the audit log.
CREATE TABLE api_keys (
    id TEXT PRIMARY KEY,
    user_id TEXT NOT NULL,
    name TEXT NOT NULL,
    permissions BLOB NOT NULL,
    digest BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    expires_at INTEGER,
    last_used_at INTEGER,
    revoked_at INTEGER
) STRICT, WITHOUT ROWID;

CREATE INDEX api_keys_of_user ON api_keys (user_id, id);

-- What a tenant has used in a month ('2026-03', UTC).
CREATE TABLE usage_months (
    tenant TEXT NOT NULL,
    month TEXT NOT NULL,
    jobs INTEGER NOT NULL,
    gpu_seconds REAL NOT NULL,
    PRIMARY KEY (tenant, month)
) STRICT, WITHOUT ROWID;

-- The bytes of a tenant's outputs, kept by triggers: a sum over all of them would take seconds.
CREATE TABLE stored_outputs (
    tenant TEXT PRIMARY KEY,
    bytes INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO stored_outputs (tenant, bytes)
SELECT jobs.tenant, sum(outputs.size)
FROM outputs JOIN jobs ON jobs.id = outputs.job_id
GROUP BY jobs.tenant;

CREATE TRIGGER outputs_come AFTER INSERT ON outputs
BEGIN
    INSERT INTO stored_outputs (tenant, bytes)
    SELECT tenant, new.size FROM jobs WHERE id = new.job_id
    ON CONFLICT (tenant) DO UPDATE SET bytes = bytes + excluded.bytes;
END;

CREATE TRIGGER outputs_go AFTER DELETE ON outputs
BEGIN
    UPDATE stored_outputs SET bytes = bytes - old.size
    WHERE tenant = (SELECT tenant FROM jobs WHERE id = old.job_id);
END;

-- Before: when the outputs of a removed job go, nobody knows any more whose they were.
CREATE TRIGGER jobs_go BEFORE DELETE ON jobs
BEGIN
    UPDATE stored_outputs
    SET bytes = bytes - (SELECT coalesce(sum(size), 0) FROM outputs WHERE job_id = old.id)
    WHERE tenant = old.tenant;
END;

-- What those who run the server have done. Nothing changes or removes a row.
CREATE TABLE audit_log (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    key_id TEXT,
    act TEXT NOT NULL,
    target TEXT NOT NULL,
    details BLOB NOT NULL,
    address TEXT,
    request_id TEXT
) STRICT;

CREATE TRIGGER audit_log_stays BEFORE DELETE ON audit_log
BEGIN
    SELECT raise(ABORT, 'the audit log is only added to');
END;

CREATE TRIGGER audit_log_is_final BEFORE UPDATE ON audit_log
BEGIN
    SELECT raise(ABORT, 'the audit log is only added to');
END;

-- Addresses that get no answer.
CREATE TABLE ip_blocks (
    id TEXT PRIMARY KEY,
    network TEXT NOT NULL UNIQUE,
    reason TEXT NOT NULL,
    created_by TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER
) STRICT, WITHOUT ROWID;
