SELECT events.*, jobs.workflow_id, jobs.batch_id, jobs.surface FROM events
LEFT JOIN jobs ON jobs.id = events.job_id
WHERE events.tenant = :tenant AND events.sequence > :after
ORDER BY events.sequence
LIMIT :limit;
