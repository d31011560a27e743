-- By two indexes, without a look at the jobs.
SELECT (
    SELECT count(*) FROM jobs
    WHERE tenant = :tenant AND state IN (SELECT value FROM json_each(:states))
) - (
    SELECT count(*) FROM jobs
    WHERE tenant = :tenant AND state IN (SELECT value FROM json_each(:states)) AND is_hidden = 1
) AS jobs;
