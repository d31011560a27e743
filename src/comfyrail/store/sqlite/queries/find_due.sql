SELECT * FROM jobs
WHERE state = 'queued' AND held_until IS NOT NULL AND held_until <= :now
ORDER BY held_until
LIMIT :limit;
