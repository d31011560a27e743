-- The tier under which a tenant has submitted last: as many of its jobs run at once as that allows.
CREATE TABLE tenant_tiers (
    tenant TEXT PRIMARY KEY,
    tier TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Sessions that were ended before their time.
CREATE TABLE ended_sessions (
    nonce TEXT PRIMARY KEY,
    until INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX ended_sessions_by_time ON ended_sessions (until);
