-- Never our own: the session that follows it may merely be late with its lease.
SELECT token FROM attempts
WHERE worker_id = :worker_id AND state = 'running'
    AND (owner IS NULL OR (owner <> :owner AND lease_expires_at < :now));
