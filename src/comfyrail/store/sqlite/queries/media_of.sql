WITH wanted (blob_key, content_type) AS (
    SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(:files)
)
SELECT
    media.blob_key, media.content_type, media.state, media.facts,
    (
        SELECT json_group_array(
            json_array(name, variant_key, content_type, size, width, height)
        )
        FROM media_variants
        WHERE media_variants.blob_key = media.blob_key
            AND media_variants.taken_for = media.content_type
    ) AS variants
FROM wanted
JOIN media ON media.blob_key = wanted.blob_key AND media.content_type = wanted.content_type;
