SELECT queue_class, queue_group, count(*) AS jobs, sum(expected_seconds) AS seconds,
    min(rank) AS oldest_rank
FROM jobs
WHERE state = 'queued' AND held_until IS NULL
GROUP BY queue_class, queue_group;
