UPDATE jobs
SET progress = :fraction, current_node = :current_node, completed_nodes = :completed_nodes,
    total_nodes = :total_nodes
WHERE id = :job_id;
