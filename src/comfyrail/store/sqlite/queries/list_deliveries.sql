SELECT deliveries.*, endpoints.url FROM deliveries
LEFT JOIN endpoints ON endpoints.id = deliveries.endpoint_id
WHERE deliveries.tenant = :tenant AND deliveries.state = :state
    AND (:type IS NULL OR deliveries.type = :type)
    AND (:created_from IS NULL OR deliveries.created_at >= :created_from)
    AND (:created_before IS NULL OR deliveries.created_at < :created_before)
    AND (:after IS NULL OR deliveries.sequence < :after)
    AND :endpoint_id IS NULL AND :job_id IS NULL
ORDER BY deliveries.sequence DESC
LIMIT :limit;
