-- The clock may have been set back while no server was there to see it.
UPDATE jobs SET held_until = :latest
WHERE state = 'queued' AND held_until > :latest AND reason = 'retrying';
