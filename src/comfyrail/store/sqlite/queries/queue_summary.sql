SELECT queue_class, rank / :step AS bucket, count(*) AS jobs, sum(expected_seconds) AS seconds
FROM jobs
WHERE state = 'queued' AND held_until IS NULL
GROUP BY queue_class, bucket;
