SELECT * FROM usage_days WHERE tenant = :tenant AND day >= :first ORDER BY day;
