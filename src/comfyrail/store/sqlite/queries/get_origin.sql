SELECT origin FROM job_prompts WHERE job_id = :job_id;
