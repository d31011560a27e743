-- The next number in the job's log: 1, 2, 3 … without gaps.
UPDATE jobs SET last_event = last_event + 1 WHERE id = :job_id RETURNING last_event, tenant, tells, workflow_id, surface;
