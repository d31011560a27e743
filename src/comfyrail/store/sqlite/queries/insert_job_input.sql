INSERT INTO job_inputs (job_id, name, blob_key, asset_id)
VALUES (:job_id, :name, :blob_key, :asset_id)
ON CONFLICT (job_id, name) DO NOTHING;
