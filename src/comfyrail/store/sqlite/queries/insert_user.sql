INSERT INTO users (id, tenant, tier, permissions, quotas, is_disabled, created_at)
VALUES (:id, :tenant, :tier, :permissions, :quotas, :is_disabled, :created_at);
