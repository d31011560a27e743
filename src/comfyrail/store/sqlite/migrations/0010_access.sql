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
