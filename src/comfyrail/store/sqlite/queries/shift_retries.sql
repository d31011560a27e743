UPDATE jobs SET held_until = max(0, held_until + :milliseconds)
WHERE state = 'queued' AND held_until IS NOT NULL AND reason = 'retrying';
