SELECT * FROM outputs WHERE job_id = :job_id AND id = :output_id;
