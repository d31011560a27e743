UPDATE jobs
SET state = :state, reason = NULL, completed_at = :now, fault = :fault, retries = :retries,
    current_node = NULL, progress = CASE WHEN :state = 'completed' THEN 1.0 ELSE progress END,
    completed_nodes = CASE WHEN :state = 'completed' THEN total_nodes ELSE completed_nodes END
WHERE id = :job_id
RETURNING *;
