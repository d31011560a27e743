SELECT
    attempts.*, jobs.tenant, jobs.timeout_seconds, jobs.expected_seconds, jobs.progress, jobs.current_node, jobs.completed_nodes,
    jobs.total_nodes, jobs.cancel_requested, jobs.runs_alone, job_groups.needs, job_prompts.prompt, job_prompts.execution_config,
    job_prompts.extra_data, job_prompts.output_config
FROM attempts
JOIN jobs ON jobs.id = attempts.job_id
JOIN job_prompts ON job_prompts.job_id = attempts.job_id
LEFT JOIN job_groups ON job_groups.key = jobs.queue_group
WHERE attempts.token = :token;
