UPDATE outputs SET tier = :tier, next_step_at = :next_step_at
WHERE job_id = :job_id AND id = :output_id AND gone_at IS NULL;
