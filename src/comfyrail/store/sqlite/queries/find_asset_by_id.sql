SELECT 1 FROM assets WHERE id = :asset_id;
