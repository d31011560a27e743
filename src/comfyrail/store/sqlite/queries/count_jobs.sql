SELECT 'queued' AS state,
    (SELECT count(*) FROM jobs WHERE state = 'queued' AND held_until IS NULL)
    + (SELECT count(*) FROM jobs WHERE state = 'queued' AND held_until IS NOT NULL) AS jobs
UNION ALL
SELECT 'processing' AS state, count(*) AS jobs FROM jobs WHERE state = 'processing';
