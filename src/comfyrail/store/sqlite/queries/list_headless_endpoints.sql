-- Endpoints with lines in which something waits and nothing is due.
SELECT DISTINCT waiting.endpoint_id AS id
FROM deliveries AS waiting INDEXED BY deliveries_in_line
WHERE waiting.state = 'pending' AND waiting.endpoint_id IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM deliveries AS head INDEXED BY deliveries_heads
    WHERE head.endpoint_id = waiting.endpoint_id AND head.job_id IS waiting.job_id
        AND head.state = 'pending' AND head.next_at IS NOT NULL
);
