SELECT 'scheduled' AS name, count(*) AS jobs FROM jobs
WHERE state = 'queued' AND held_until IS NOT NULL
UNION ALL
SELECT 'processing' AS name, count(*) AS jobs FROM jobs WHERE state = 'processing';
