SELECT token FROM attempts
WHERE worker_id = :worker_id AND state = 'running' AND (owner IS NULL OR lease_expires_at < :now);
