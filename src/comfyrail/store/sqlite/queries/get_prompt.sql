SELECT prompt FROM job_prompts WHERE job_id = :job_id;
