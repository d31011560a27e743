SELECT pending FROM pending_deliveries WHERE tenant = :tenant;
