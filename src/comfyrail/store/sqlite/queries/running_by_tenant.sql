SELECT tenant, count(*) AS jobs FROM jobs WHERE state = 'processing' GROUP BY tenant;
