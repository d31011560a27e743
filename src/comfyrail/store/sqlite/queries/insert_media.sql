INSERT INTO media (blob_key, content_type, added_at)
VALUES (:blob_key, :content_type, :now)
ON CONFLICT DO NOTHING;
