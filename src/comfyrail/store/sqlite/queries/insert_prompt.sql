INSERT INTO job_prompts (job_id, prompt) VALUES (:job_id, :prompt);
