SELECT 'queued' AS state, count(*) AS jobs FROM jobs WHERE state = 'queued'
UNION ALL
SELECT 'processing' AS state, count(*) AS jobs FROM jobs WHERE state = 'processing';
