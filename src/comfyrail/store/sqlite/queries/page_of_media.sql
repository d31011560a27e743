SELECT DISTINCT
    blob_key,
    EXISTS (SELECT 1 FROM outputs WHERE outputs.blob_key = media.blob_key AND outputs.gone_at IS NULL)
    OR EXISTS (SELECT 1 FROM assets WHERE assets.blob_key = media.blob_key) AS is_needed
FROM media
WHERE blob_key > :after
ORDER BY blob_key
LIMIT :limit;
