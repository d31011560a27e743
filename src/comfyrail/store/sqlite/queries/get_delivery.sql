SELECT deliveries.*, endpoints.url, endpoints.is_enabled FROM deliveries
LEFT JOIN endpoints ON endpoints.id = deliveries.endpoint_id
WHERE deliveries.id = :delivery_id AND deliveries.tenant = :tenant;
