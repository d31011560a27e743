SELECT queue_class, tenant, queue_group FROM jobs
WHERE state = 'queued' AND held_until IS NULL
    AND (queue_class, tenant, queue_group) > (:queue_class, :tenant, :queue_group)
ORDER BY queue_class, tenant, queue_group
LIMIT 1;
