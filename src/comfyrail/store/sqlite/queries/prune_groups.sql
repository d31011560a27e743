DELETE FROM job_groups
WHERE key NOT IN (
    SELECT queue_group FROM jobs WHERE state = 'queued' AND held_until IS NULL
    UNION
    SELECT queue_group FROM jobs WHERE state = 'queued' AND held_until IS NOT NULL
    UNION
    SELECT queue_group FROM jobs WHERE state = 'processing'
);
