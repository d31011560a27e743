UPDATE deliveries SET state = 'dead', next_at = NULL, settled_at = :now, last_error = :reason
WHERE sequence IN (
    SELECT sequence FROM deliveries INDEXED BY deliveries_in_line
    WHERE endpoint_id = :endpoint_id AND state = 'pending' LIMIT :limit
)
RETURNING sequence;
