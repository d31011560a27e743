SELECT tenant, queue_group FROM jobs
WHERE state = 'queued' AND held_until IS NULL AND queue_class = :queue_class
    AND (tenant, queue_group) > (:tenant, :queue_group)
ORDER BY tenant, queue_group
LIMIT 1;
