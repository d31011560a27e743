DELETE FROM followed_jobs WHERE job_id = :job_id;
