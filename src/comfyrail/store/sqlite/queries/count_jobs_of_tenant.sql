SELECT count(*) AS jobs FROM jobs WHERE tenant = :tenant AND state = :state;
