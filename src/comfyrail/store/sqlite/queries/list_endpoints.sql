SELECT * FROM endpoints WHERE tenant = :tenant AND job_id IS NULL ORDER BY id;
