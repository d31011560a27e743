INSERT INTO followed_jobs (job_id, tenant) VALUES (:job_id, :tenant)
ON CONFLICT DO NOTHING;
