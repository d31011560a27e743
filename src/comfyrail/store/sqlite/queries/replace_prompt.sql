UPDATE job_prompts SET prompt = :prompt WHERE job_id = :job_id;
