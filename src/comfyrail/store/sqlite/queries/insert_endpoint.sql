INSERT INTO endpoints (
    id, tenant, job_id, url, address, settings, patience, secret, is_enabled, disabled_reason,
    created_at, changed_at, made_by
)
VALUES (
    :id, :tenant, :job_id, :url, :address, :settings, :patience, :secret, :is_enabled,
    :disabled_reason, :created_at, :changed_at,
    (SELECT users.id FROM users WHERE users.id = :made_by)
);
