SELECT min(expires_at) AS at FROM jobs WHERE state = 'queued' AND expires_at IS NOT NULL;
