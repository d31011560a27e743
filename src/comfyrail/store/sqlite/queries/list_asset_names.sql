SELECT DISTINCT name FROM assets
WHERE tenant = :tenant AND (expires_at IS NULL OR expires_at > :now)
ORDER BY name
LIMIT :limit;
