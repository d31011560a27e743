SELECT
    number, worker_id, state, started_at, ended_at, cause, fault, recovery, retry_delay, prompt_id
FROM attempts
WHERE job_id = :job_id
ORDER BY number;
