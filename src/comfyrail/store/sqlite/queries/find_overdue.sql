SELECT * FROM jobs
WHERE state = 'queued' AND held_until IS NULL AND expires_at IS NOT NULL AND expires_at <= :now
ORDER BY expires_at
LIMIT :limit;
