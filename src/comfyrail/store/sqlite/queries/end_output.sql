UPDATE outputs SET gone_at = :now, gone_reason = :reason, next_step_at = NULL
WHERE job_id = :job_id AND id = :output_id AND gone_at IS NULL;
