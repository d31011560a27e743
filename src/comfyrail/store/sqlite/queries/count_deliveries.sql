SELECT 'pending' AS state, count(*) AS deliveries
FROM deliveries INDEXED BY deliveries_running_out WHERE state = 'pending'
UNION ALL
SELECT 'dead', count(*) FROM deliveries INDEXED BY deliveries_dead WHERE state = 'dead';
