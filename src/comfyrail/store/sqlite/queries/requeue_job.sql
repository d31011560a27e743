UPDATE jobs
SET state = 'queued', reason = :reason, worker_id = NULL, retries = :retries, progress = 0,
    current_node = NULL, completed_nodes = 0, expires_at = :expires_at, held_until = :held_until,
    queue_group = :queue_group, timeout_seconds = :timeout_seconds, total_nodes = :total_nodes,
    bounces = :bounces, runs_alone = :runs_alone
WHERE id = :job_id
RETURNING *;
