-- The index has all of it.
SELECT
    state, count(*) AS jobs, min(started_at) AS started_at, max(completed_at) AS last_end,
    sum(cost) AS cost, sum(expected_seconds) AS seconds
FROM jobs INDEXED BY jobs_of_batch_by_state
WHERE batch_id = :batch_id
GROUP BY state;
