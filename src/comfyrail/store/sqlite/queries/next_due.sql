SELECT min(held_until) AS at FROM jobs WHERE state = 'queued' AND held_until IS NOT NULL;
