SELECT count(*) AS jobs FROM jobs
JOIN job_prompts ON job_prompts.job_id = jobs.id
WHERE tenant = :tenant AND is_hidden = 0
    AND state IN (SELECT value FROM json_each(:states))
    AND origin IS NOT NULL AND json_extract(CAST(origin AS TEXT), '$.workflow_id') = :workflow_id;
