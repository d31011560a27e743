SELECT * FROM assets
WHERE id = :asset_id AND tenant = :tenant AND (expires_at IS NULL OR expires_at > :now);
