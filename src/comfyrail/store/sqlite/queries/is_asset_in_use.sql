SELECT job_id FROM job_inputs WHERE asset_id = :asset_id LIMIT 1;
