INSERT INTO endpoints (
    id, tenant, job_id, url, address, settings, patience, secret, is_enabled, disabled_reason,
    created_at, changed_at
)
VALUES (
    :id, :tenant, :job_id, :url, :address, :settings, :patience, :secret, :is_enabled,
    :disabled_reason, :created_at, :changed_at
);
