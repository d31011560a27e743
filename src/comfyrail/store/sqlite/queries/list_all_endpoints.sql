SELECT * FROM endpoints WHERE job_id IS NULL;
