INSERT INTO indexed_jobs (job_id) VALUES (:job_id)
ON CONFLICT (job_id) DO UPDATE SET job_id = excluded.job_id
RETURNING number;
