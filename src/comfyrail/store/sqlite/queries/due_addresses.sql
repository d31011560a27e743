-- One step of the index an address, however much waits for it.
WITH RECURSIVE found (address) AS (
    SELECT min(address) FROM deliveries INDEXED BY deliveries_due
    WHERE state = 'pending' AND next_at IS NOT NULL AND address > :after
    UNION ALL
    SELECT (
        SELECT min(address) FROM deliveries INDEXED BY deliveries_due
        WHERE state = 'pending' AND next_at IS NOT NULL AND address > found.address
    )
    FROM found WHERE found.address IS NOT NULL
    LIMIT :limit
)
SELECT address, (
    SELECT min(next_at) FROM deliveries INDEXED BY deliveries_due
    WHERE state = 'pending' AND next_at IS NOT NULL AND deliveries.address = found.address
) AS next_at
FROM found WHERE address IS NOT NULL;
