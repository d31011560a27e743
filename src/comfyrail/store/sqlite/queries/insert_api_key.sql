INSERT INTO api_keys (id, user_id, name, permissions, digest, created_at, created_by, expires_at)
VALUES (:id, :user_id, :name, :permissions, :digest, :created_at, :created_by, :expires_at);
