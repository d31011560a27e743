UPDATE jobs
SET priority = :priority, effective_priority = :effective_priority, queue_class = :queue_class,
    rank = :rank
WHERE id = :job_id
RETURNING *;
