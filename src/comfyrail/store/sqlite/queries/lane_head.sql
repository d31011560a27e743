SELECT
    id, rank, expected_seconds,
    max(submitted_at, coalesce(not_before, 0)) AS submitted_at
FROM jobs
WHERE state = 'queued' AND held_until IS NULL
    AND queue_class = :queue_class AND tenant = :tenant AND queue_group = :queue_group
ORDER BY rank, id
LIMIT :limit;
