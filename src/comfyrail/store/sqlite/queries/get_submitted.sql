SELECT job_prompts.prompt, job_prompts.extra_data, job_prompts.origin
FROM job_prompts
JOIN jobs ON jobs.id = job_prompts.job_id
WHERE job_prompts.job_id = :job_id AND jobs.tenant = :tenant;
