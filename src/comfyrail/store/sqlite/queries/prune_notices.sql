DELETE FROM events WHERE sequence IN (
    SELECT sequence FROM events WHERE job_id IS NULL AND at < :before LIMIT :limit
)
RETURNING sequence;
