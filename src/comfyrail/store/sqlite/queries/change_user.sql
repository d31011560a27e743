UPDATE users
SET tenant = :tenant, tier = :tier, permissions = :permissions, quotas = :quotas,
    is_disabled = :is_disabled
WHERE id = :id
RETURNING id;
