SELECT * FROM api_keys WHERE id > :after ORDER BY id LIMIT :limit;
