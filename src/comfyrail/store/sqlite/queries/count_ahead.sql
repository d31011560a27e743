-- Only inside one bucket of the queue's figures.
SELECT count(*) AS jobs, coalesce(sum(expected_seconds), 0.0) AS seconds FROM jobs
WHERE state = 'queued' AND held_until IS NULL AND rank >= :start AND (rank, id) < (:rank, :job_id);
