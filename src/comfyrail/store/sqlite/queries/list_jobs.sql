SELECT * FROM jobs
WHERE tenant = :tenant AND (:after IS NULL OR id < :after)
ORDER BY id DESC
LIMIT :limit;
