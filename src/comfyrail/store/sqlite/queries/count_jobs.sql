-- Nobody knows of a batch that is filling: its jobs are held until the last moment there is.
SELECT 'queued' AS state,
    (SELECT count(*) FROM jobs WHERE state = 'queued' AND held_until IS NULL)
    + (
        SELECT count(*) FROM jobs
        WHERE state = 'queued' AND held_until IS NOT NULL AND held_until < 253402300799000
    ) AS jobs
UNION ALL
SELECT 'processing' AS state, count(*) AS jobs FROM jobs WHERE state = 'processing';
