DELETE FROM deliveries
WHERE sequence IN (SELECT sequence FROM deliveries WHERE endpoint_id = :endpoint_id LIMIT :limit)
RETURNING sequence;
