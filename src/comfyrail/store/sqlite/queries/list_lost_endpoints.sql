-- Endpoints of accounts that are gone, and of which deliveries are left. One step an endpoint.
WITH RECURSIVE found (id) AS (
    SELECT min(endpoint_id) FROM deliveries INDEXED BY deliveries_of_endpoint
    WHERE endpoint_id >= 'wh_' AND endpoint_id < 'wi'
    UNION ALL
    SELECT (
        SELECT min(endpoint_id) FROM deliveries INDEXED BY deliveries_of_endpoint
        WHERE endpoint_id > found.id AND endpoint_id < 'wi'
    )
    FROM found WHERE found.id IS NOT NULL
)
SELECT found.id FROM found
WHERE found.id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM endpoints WHERE endpoints.id = found.id);
