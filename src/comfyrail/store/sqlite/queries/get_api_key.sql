SELECT * FROM api_keys WHERE id = :key_id;
