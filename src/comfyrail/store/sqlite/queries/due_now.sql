SELECT address FROM deliveries INDEXED BY deliveries_due_at
WHERE state = 'pending' AND next_at IS NOT NULL AND next_at <= :now
ORDER BY next_at
LIMIT :limit;
