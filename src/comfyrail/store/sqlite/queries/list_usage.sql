SELECT * FROM usage_months WHERE tenant = :tenant ORDER BY month DESC LIMIT :limit;
