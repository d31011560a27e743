SELECT count(*) AS endpoints FROM endpoints WHERE tenant = :tenant AND job_id IS NULL;
