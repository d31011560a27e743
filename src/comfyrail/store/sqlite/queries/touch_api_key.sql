UPDATE api_keys SET last_used_at = max(coalesce(last_used_at, 0), :used_at) WHERE id = :key_id;
