INSERT INTO job_prompts (job_id, prompt, execution_config, origin, extra_data)
VALUES (:job_id, :prompt, :execution_config, :origin, :extra_data);
