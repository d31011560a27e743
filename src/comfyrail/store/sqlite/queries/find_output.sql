SELECT outputs.* FROM outputs
JOIN jobs ON jobs.id = outputs.job_id
WHERE outputs.id = :output_id AND jobs.tenant = :tenant;
