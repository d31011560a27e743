INSERT INTO ip_blocks (id, network, reason, created_by, created_at, expires_at)
VALUES (:id, :network, :reason, :created_by, :created_at, :expires_at)
ON CONFLICT (network) DO UPDATE
SET reason = excluded.reason, created_by = excluded.created_by, created_at = excluded.created_at,
    expires_at = excluded.expires_at
RETURNING *;
