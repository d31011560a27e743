SELECT job_id, number, worker_id FROM attempts WHERE token = :token AND state = 'running';
