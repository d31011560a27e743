SELECT * FROM outputs WHERE job_id = :job_id ORDER BY attempt, position;
