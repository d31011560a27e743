SELECT
    blob_key, state, facts,
    (
        SELECT json_group_array(
            json_array(name, variant_key, content_type, size, width, height)
        )
        FROM media_variants WHERE media_variants.blob_key = media.blob_key
    ) AS variants
FROM media
WHERE blob_key IN (SELECT value FROM json_each(:keys));
