-- Which they are comes from the index of the lanes alone: a tenant may have very many.
SELECT jobs.* FROM (
    SELECT id FROM jobs INDEXED BY jobs_in_lanes
    WHERE state = 'queued' AND held_until IS NULL AND tenant = :tenant
        AND queue_class IN ('high', 'medium', 'low', 'batch')
        AND (rank, id) > (:key, :job_id)
    ORDER BY rank, id
    LIMIT :limit
) AS next
JOIN jobs ON jobs.id = next.id
ORDER BY jobs.rank, jobs.id;
