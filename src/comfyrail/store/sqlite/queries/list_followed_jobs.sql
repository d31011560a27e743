SELECT job_id, tenant FROM followed_jobs
WHERE job_id > :after
ORDER BY job_id
LIMIT :limit;
