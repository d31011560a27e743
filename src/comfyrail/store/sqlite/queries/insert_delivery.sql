-- Nothing where the endpoint has gone or is disabled, or its tenant has `most` that wait; fewer are enough for one that
-- has failed since `dead_since`. It waits where an earlier one of its line does.
INSERT INTO deliveries (
    id, kind, tenant, endpoint_id, address, job_id, event_sequence, number, type, state, next_at,
    expires_at, created_at
)
SELECT
    :id, 'event', endpoints.tenant, endpoints.id, endpoints.address, :job_id, :event_sequence,
    :number, :type, 'pending',
    CASE WHEN EXISTS (
        SELECT 1 FROM deliveries
        WHERE endpoint_id = :endpoint_id AND job_id IS :job_id AND state = 'pending'
    ) THEN NULL ELSE :now END,
    :now + endpoints.patience, :now
FROM endpoints
WHERE endpoints.id = :endpoint_id AND endpoints.is_enabled AND NOT EXISTS (
    SELECT 1 FROM pending_deliveries
    WHERE pending_deliveries.tenant = endpoints.tenant AND pending_deliveries.pending
        >= CASE WHEN endpoints.failing_since <= :dead_since THEN :most_beside_dead ELSE :most END
)
RETURNING sequence;
