SELECT job_prompts.execution_config, job_prompts.output_config, jobs.queue_timeout
FROM jobs JOIN job_prompts ON job_prompts.job_id = jobs.id
WHERE jobs.id = :job_id;
