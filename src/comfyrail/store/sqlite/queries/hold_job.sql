UPDATE jobs SET held_until = :until, reason = :reason WHERE id = :job_id;
