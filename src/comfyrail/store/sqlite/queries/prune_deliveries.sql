DELETE FROM deliveries WHERE sequence IN (
    SELECT sequence FROM deliveries WHERE settled_at < :before ORDER BY settled_at LIMIT :limit
)
RETURNING sequence;
