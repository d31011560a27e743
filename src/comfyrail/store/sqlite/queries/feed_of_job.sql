SELECT events.*, jobs.workflow_id, jobs.batch_id, jobs.surface FROM events
JOIN jobs ON jobs.id = events.job_id
WHERE events.job_id = :job_id AND events.tenant = :tenant AND events.sequence > :after
ORDER BY events.number
LIMIT :limit;
