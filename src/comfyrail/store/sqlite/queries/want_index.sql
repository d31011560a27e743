INSERT OR IGNORE INTO jobs_to_index (job_id) VALUES (:job_id);
