SELECT deliveries.* FROM deliveries
LEFT JOIN endpoints ON endpoints.id = deliveries.endpoint_id
WHERE deliveries.address = :address AND deliveries.state = 'pending'
    AND deliveries.next_at IS NOT NULL AND deliveries.next_at <= :now
    AND (deliveries.kind = 'upload' OR endpoints.is_enabled)
ORDER BY deliveries.next_at, deliveries.sequence
LIMIT :limit;
