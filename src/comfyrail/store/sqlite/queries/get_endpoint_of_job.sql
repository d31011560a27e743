SELECT * FROM endpoints WHERE job_id = :job_id;
