UPDATE deliveries
SET state = 'dead', next_at = NULL, settled_at = :now,
    last_error = coalesce(last_error, 'The endpoint could not be reached in all that time.')
WHERE sequence IN (
    SELECT sequence FROM deliveries
    WHERE address = :address AND state = 'pending' AND expires_at <= :now
    ORDER BY expires_at LIMIT :limit
)
RETURNING endpoint_id, job_id;
