INSERT INTO deliveries (
    id, kind, tenant, endpoint_id, address, type, state, attempts, expires_at, created_at,
    settled_at, last_status, last_error
)
VALUES (
    :id, 'test', :tenant, :endpoint_id, :address, :type, :state, 1, :now, :now, :now, :status, :error
);
