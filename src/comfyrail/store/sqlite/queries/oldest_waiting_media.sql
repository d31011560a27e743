SELECT blob_key, content_type, attempts FROM media
WHERE state = 'waiting'
ORDER BY attempts, added_at, blob_key
LIMIT :limit;
