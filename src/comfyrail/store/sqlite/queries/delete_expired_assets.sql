DELETE FROM assets
WHERE id IN (
    SELECT id FROM assets
    WHERE expires_at <= :now
        AND NOT EXISTS (SELECT 1 FROM job_inputs WHERE job_inputs.asset_id = assets.id)
    LIMIT :limit
)
RETURNING blob_key;
