UPDATE api_keys SET revoked_at = coalesce(revoked_at, :now) WHERE id = :key_id RETURNING *;
