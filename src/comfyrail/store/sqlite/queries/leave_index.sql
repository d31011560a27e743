DELETE FROM jobs_to_index WHERE job_id = :job_id;
