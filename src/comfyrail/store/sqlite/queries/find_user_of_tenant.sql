SELECT id FROM users WHERE tenant = :tenant LIMIT 1;
