UPDATE jobs
SET state = 'queued', reason = :reason, worker_id = NULL, retries = :retries, progress = 0,
    current_node = NULL, completed_nodes = 0, expires_at = :expires_at
WHERE id = :job_id
RETURNING *;
