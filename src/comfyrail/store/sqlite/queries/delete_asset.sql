DELETE FROM assets WHERE id = :asset_id RETURNING blob_key;
