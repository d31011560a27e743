-- Endpoints that are gone or disabled, and for which something still waits.
WITH RECURSIVE found (id) AS (
    SELECT min(endpoint_id) FROM deliveries WHERE state = 'pending' AND endpoint_id IS NOT NULL
    UNION ALL
    SELECT (
        SELECT min(endpoint_id) FROM deliveries WHERE state = 'pending' AND endpoint_id > found.id
    )
    FROM found WHERE found.id IS NOT NULL
)
SELECT found.id, endpoints.disabled_reason, endpoints.id IS NULL AS is_gone
FROM found LEFT JOIN endpoints ON endpoints.id = found.id
WHERE found.id IS NOT NULL AND (endpoints.id IS NULL OR NOT endpoints.is_enabled);
