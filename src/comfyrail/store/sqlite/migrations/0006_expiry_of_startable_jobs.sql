-- Only what may start can wait too long: not what is held back for its time or its batch.
DROP INDEX jobs_expiring;
CREATE INDEX jobs_expiring ON jobs (expires_at)
    WHERE state = 'queued' AND held_until IS NULL AND expires_at IS NOT NULL;
