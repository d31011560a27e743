-- Nobody knows of a batch that is filling: its jobs are held until the last moment there is.
SELECT 'scheduled' AS name, count(*) AS jobs FROM jobs
WHERE state = 'queued' AND held_until IS NOT NULL AND held_until < 253402300799000
UNION ALL
SELECT 'processing' AS name, count(*) AS jobs FROM jobs WHERE state = 'processing';
