INSERT INTO deliveries (
    id, kind, tenant, address, job_id, number, type, state, next_at, expires_at, created_at,
    settled_at, last_error, target
)
VALUES (
    :id, 'upload', :tenant, :address, :job_id, :number, :type, :state,
    CASE WHEN :state = 'pending' THEN :now END, :expires_at, :now,
    CASE WHEN :state <> 'pending' THEN :now END, :error, :target
);
