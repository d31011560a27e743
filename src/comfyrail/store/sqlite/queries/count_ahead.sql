-- Bounded: the cost must not grow with the length of the queue.
SELECT count(*) AS ahead FROM (
    SELECT 1 FROM jobs
    WHERE state = 'queued' AND (rank, id) < (:rank, :job_id)
    LIMIT :limit
);
