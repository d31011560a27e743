INSERT INTO job_prompts (job_id, prompt, execution_config, origin)
VALUES (:job_id, :prompt, :execution_config, :origin);
