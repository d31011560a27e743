INSERT OR REPLACE INTO replies (tenant, key, owner, created_at)
VALUES (:tenant, :key, :owner, :now);
