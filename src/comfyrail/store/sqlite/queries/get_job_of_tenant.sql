SELECT * FROM jobs WHERE id = :job_id AND tenant = :tenant;
