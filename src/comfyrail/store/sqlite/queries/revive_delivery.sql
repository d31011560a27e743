UPDATE deliveries
SET state = 'pending', failures = 0, settled_at = NULL,
    next_at = CASE WHEN kind = 'upload' THEN :now END, expires_at = :now + :patience
WHERE sequence = :sequence;
