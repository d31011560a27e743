SELECT tenant, tier FROM tenant_tiers;
