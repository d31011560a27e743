-- The first that is pending may go now, if it is not waiting for its next try.
UPDATE deliveries SET next_at = :now
WHERE next_at IS NULL AND state = 'pending' AND sequence = (
    SELECT min(sequence) FROM deliveries
    WHERE endpoint_id = :endpoint_id AND job_id IS :job_id AND state = 'pending'
)
RETURNING sequence;
