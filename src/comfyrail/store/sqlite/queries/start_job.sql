UPDATE jobs
SET state = 'processing', reason = NULL, worker_id = :worker_id, attempts = attempts + 1,
    started_at = coalesce(started_at, :now), progress = 0, current_node = NULL, completed_nodes = 0
WHERE id = :job_id
RETURNING *;
