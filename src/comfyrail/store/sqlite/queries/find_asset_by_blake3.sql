SELECT * FROM assets
WHERE tenant = :tenant AND blake3 = :blake3 AND (expires_at IS NULL OR expires_at > :now)
ORDER BY id DESC
LIMIT 1;
