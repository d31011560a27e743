SELECT count(*) AS jobs FROM jobs WHERE tenant = :tenant AND state IN ('queued', 'processing');
