-- One before which an earlier one of its line was begun anew waits for that.
UPDATE deliveries
SET attempts = attempts + 1, last_status = :status, last_error = :error, state = :state,
    settled_at = :settled_at, failures = failures + (:error IS NOT NULL),
    next_at = CASE WHEN NOT EXISTS (
        SELECT 1 FROM deliveries AS earlier
        WHERE earlier.endpoint_id = deliveries.endpoint_id
            AND earlier.job_id IS deliveries.job_id AND earlier.state = 'pending'
            AND earlier.sequence < deliveries.sequence
    ) THEN :next_at END
WHERE sequence = :sequence AND state = 'pending'
RETURNING attempts;
