SELECT min(expires_at) AS at FROM jobs
WHERE state = 'queued' AND held_until IS NULL AND expires_at IS NOT NULL;
