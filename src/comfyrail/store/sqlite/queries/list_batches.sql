SELECT * FROM batches
WHERE tenant = :tenant AND stage <> 'filling' AND (:after IS NULL OR id < :after)
ORDER BY id DESC
LIMIT :limit;
