UPDATE deliveries
SET attempts = attempts + 1, last_status = :status, last_error = :error, state = :state,
    next_at = :next_at, settled_at = :settled_at,
    failures = failures + (:error IS NOT NULL)
WHERE sequence = :sequence AND state = 'pending'
RETURNING attempts;
