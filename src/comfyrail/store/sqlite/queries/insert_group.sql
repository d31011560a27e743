INSERT OR IGNORE INTO job_groups (key, needs) VALUES (:key, :needs);
