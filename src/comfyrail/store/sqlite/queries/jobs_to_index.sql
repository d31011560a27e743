SELECT jobs_to_index.job_id, jobs.tenant, job_prompts.prompt FROM jobs_to_index
JOIN jobs ON jobs.id = jobs_to_index.job_id
JOIN job_prompts ON job_prompts.job_id = jobs_to_index.job_id
ORDER BY jobs_to_index.job_id
LIMIT :limit;
