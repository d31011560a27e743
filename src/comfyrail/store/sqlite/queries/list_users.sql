SELECT * FROM users WHERE id > :after ORDER BY id LIMIT :limit;
