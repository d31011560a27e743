WITH RECURSIVE lanes (queue_group) AS (
    SELECT min(queue_group) FROM jobs
    WHERE state = 'queued' AND held_until IS NULL
        AND queue_class = :queue_class AND tenant = :tenant AND queue_group > :queue_group
    UNION ALL
    SELECT (
        SELECT min(jobs.queue_group) FROM jobs
        WHERE state = 'queued' AND held_until IS NULL
            AND queue_class = :queue_class AND tenant = :tenant
            AND jobs.queue_group > lanes.queue_group
    )
    FROM lanes WHERE lanes.queue_group IS NOT NULL
)
SELECT queue_group FROM lanes WHERE queue_group IS NOT NULL LIMIT :limit;
