UPDATE deliveries SET next_at = CASE WHEN sequence = (
    SELECT min(sequence) FROM deliveries
    WHERE endpoint_id = :endpoint_id AND job_id IS :job_id AND state = 'pending'
) THEN :now END
WHERE endpoint_id = :endpoint_id AND job_id IS :job_id AND state = 'pending';
