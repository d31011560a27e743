SELECT * FROM endpoints WHERE id = :endpoint_id AND tenant = :tenant AND job_id IS NULL;
