SELECT * FROM api_keys WHERE user_id = :user_id AND id > :after ORDER BY id LIMIT :limit;
