SELECT * FROM outputs WHERE gone_at IS NULL AND id > :after ORDER BY id LIMIT :limit;
