INSERT INTO job_prompts (job_id, prompt, execution_config)
VALUES (:job_id, :prompt, :execution_config);
