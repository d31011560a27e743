SELECT * FROM usage_months WHERE tenant = :tenant AND month = :month;
