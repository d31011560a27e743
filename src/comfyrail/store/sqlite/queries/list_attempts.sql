SELECT number, worker_id, state, started_at, ended_at, cause, fault, recovery, retry_delay
FROM attempts
WHERE job_id = :job_id
ORDER BY number;
