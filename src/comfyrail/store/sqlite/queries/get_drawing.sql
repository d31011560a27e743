SELECT prompt, layout, extra_data FROM job_prompts WHERE job_id = :job_id;
