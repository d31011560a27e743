UPDATE api_keys SET revoked_at = :now WHERE user_id = :user_id AND revoked_at IS NULL;
