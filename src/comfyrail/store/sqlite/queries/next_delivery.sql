SELECT min(next_at) AS next_at FROM deliveries INDEXED BY deliveries_due_at
WHERE state = 'pending' AND next_at IS NOT NULL AND next_at > :now;
