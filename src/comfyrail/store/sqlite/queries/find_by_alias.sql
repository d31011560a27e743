SELECT * FROM jobs WHERE tenant = :tenant AND surface = :surface AND alias = :alias
ORDER BY id DESC
LIMIT 1;
