-- How many jobs, and how much work, are before each of these in its bucket of the queue's figures.
SELECT
    jobs.id,
    (
        SELECT count(*) FROM jobs AS other
        WHERE other.state = 'queued' AND other.held_until IS NULL
            AND other.rank >= jobs.rank / :step * :step
            AND (other.rank, other.id) < (jobs.rank, jobs.id)
    ) AS jobs,
    (
        SELECT coalesce(sum(other.expected_seconds), 0.0) FROM jobs AS other
        WHERE other.state = 'queued' AND other.held_until IS NULL
            AND other.rank >= jobs.rank / :step * :step
            AND (other.rank, other.id) < (jobs.rank, jobs.id)
    ) AS seconds
FROM json_each(:job_ids) AS wanted
CROSS JOIN jobs ON jobs.id = wanted.value;
