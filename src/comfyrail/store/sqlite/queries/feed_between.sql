-- Lines that end in a name count only where it is given.
SELECT events.*, jobs.workflow_id, jobs.batch_id, jobs.surface FROM events
LEFT JOIN jobs ON jobs.id = events.job_id
WHERE events.tenant = :tenant AND events.sequence > :after AND events.sequence <= :last
    AND events.type IN (SELECT value FROM json_each(:types)) --? types
ORDER BY events.sequence;
