SELECT * FROM assets
WHERE sha256 >= :start AND sha256 < :start || 'g' AND tenant = :tenant
    AND (expires_at IS NULL OR expires_at > :now)
ORDER BY id DESC
LIMIT 100;
