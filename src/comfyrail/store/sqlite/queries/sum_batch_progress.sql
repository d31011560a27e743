SELECT
    coalesce(sum(progress), 0.0) AS progress,
    coalesce(sum(progress * expected_seconds), 0.0) AS seconds_done
FROM jobs INDEXED BY jobs_of_batch_by_state
WHERE batch_id = :batch_id AND state = 'processing';
