INSERT INTO job_prompts (job_id, prompt, execution_config, origin, extra_data, output_config, layout)
VALUES (:job_id, :prompt, :execution_config, :origin, :extra_data, :output_config, :layout);
