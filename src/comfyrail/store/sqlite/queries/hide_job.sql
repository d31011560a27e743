UPDATE jobs SET is_hidden = 1
WHERE id = :job_id AND tenant = :tenant AND state IN ('completed', 'failed', 'cancelled');
