-- A variant is referred to for as long as its original is.
WITH
wanted (blob_key) AS (SELECT value FROM json_each(:keys)),
originals (blob_key, original) AS (
    SELECT blob_key, blob_key FROM wanted
    UNION
    SELECT media_variants.variant_key, media_variants.blob_key
    FROM wanted JOIN media_variants ON media_variants.variant_key = wanted.blob_key
)
SELECT originals.blob_key FROM originals
WHERE EXISTS (SELECT 1 FROM outputs WHERE outputs.blob_key = originals.original AND outputs.gone_at IS NULL)
    OR EXISTS (SELECT 1 FROM assets WHERE assets.blob_key = originals.original)
UNION
SELECT job_inputs.blob_key FROM job_inputs
WHERE job_inputs.blob_key IN (SELECT blob_key FROM wanted);
