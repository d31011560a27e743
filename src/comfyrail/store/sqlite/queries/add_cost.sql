UPDATE jobs SET cost = coalesce(cost, 0) + :cost WHERE id = :job_id;
