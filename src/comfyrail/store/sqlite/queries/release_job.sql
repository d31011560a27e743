UPDATE jobs SET held_until = NULL, reason = NULL WHERE id = :job_id RETURNING *;
