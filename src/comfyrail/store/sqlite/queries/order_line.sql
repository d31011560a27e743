-- None goes before the first that is pending.
UPDATE deliveries SET next_at = NULL
WHERE sequence IN (
    SELECT sequence FROM deliveries INDEXED BY deliveries_heads
    WHERE endpoint_id = :endpoint_id AND job_id IS :job_id AND state = 'pending'
        AND next_at IS NOT NULL
) AND sequence > (
    SELECT min(sequence) FROM deliveries
    WHERE endpoint_id = :endpoint_id AND job_id IS :job_id AND state = 'pending'
);
