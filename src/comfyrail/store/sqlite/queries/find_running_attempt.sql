SELECT job_id, number, worker_id, started_at FROM attempts WHERE token = :token AND state = 'running';
