SELECT * FROM assets
WHERE tenant = :tenant AND name = :name AND (:after IS NULL OR id < :after)
    AND (expires_at IS NULL OR expires_at > :now)
ORDER BY id DESC
LIMIT :limit;
