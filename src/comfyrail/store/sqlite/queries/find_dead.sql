-- Oldest first.
SELECT deliveries.sequence, deliveries.endpoint_id, deliveries.job_id, deliveries.kind,
    endpoints.patience
FROM deliveries
LEFT JOIN endpoints ON endpoints.id = deliveries.endpoint_id
WHERE deliveries.tenant = :tenant AND deliveries.state = 'dead' AND deliveries.sequence > :after
    AND (:endpoint_id IS NULL OR deliveries.endpoint_id = :endpoint_id)
    AND (:job_id IS NULL OR deliveries.job_id = :job_id)
    AND (:type IS NULL OR deliveries.type = :type)
    AND (:created_from IS NULL OR deliveries.created_at >= :created_from)
    AND (:created_before IS NULL OR deliveries.created_at < :created_before)
    AND (NOT :only_deliverable OR (
        deliveries.kind <> 'test' AND (deliveries.kind = 'upload' OR endpoints.is_enabled)
    ))
ORDER BY deliveries.sequence
LIMIT :limit;
