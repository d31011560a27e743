INSERT INTO tenant_tiers (tenant, tier) VALUES (:tenant, :tier)
ON CONFLICT (tenant) DO UPDATE SET tier = excluded.tier;
