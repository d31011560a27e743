-- Jobs of which something waits for an endpoint. One step of the index a job.
WITH RECURSIVE line (job_id) AS (
    SELECT min(job_id) FROM deliveries INDEXED BY deliveries_in_line
    WHERE endpoint_id = :endpoint_id AND state = 'pending' AND job_id > :after
    UNION ALL
    SELECT (
        SELECT min(job_id) FROM deliveries INDEXED BY deliveries_in_line
        WHERE endpoint_id = :endpoint_id AND state = 'pending' AND job_id > line.job_id
    )
    FROM line WHERE line.job_id IS NOT NULL
    LIMIT :limit
)
SELECT job_id FROM line WHERE job_id IS NOT NULL;
