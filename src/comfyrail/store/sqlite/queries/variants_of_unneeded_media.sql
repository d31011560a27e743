SELECT variant_key FROM media_variants
WHERE blob_key IN (SELECT value FROM json_each(:keys))
    AND NOT EXISTS (SELECT 1 FROM outputs WHERE outputs.blob_key = media_variants.blob_key AND outputs.gone_at IS NULL)
    AND NOT EXISTS (SELECT 1 FROM assets WHERE assets.blob_key = media_variants.blob_key);
