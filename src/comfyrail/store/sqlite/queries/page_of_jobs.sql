-- Nobody knows of a batch that is filling.
SELECT jobs.* FROM jobs
WHERE tenant = :tenant AND is_hidden = 0
    AND state IN (SELECT value FROM json_each(:states))
    AND (:workflow_id IS NULL OR :workflow_id = (
        SELECT json_extract(CAST(origin AS TEXT), '$.workflow_id')
        FROM job_prompts WHERE job_prompts.job_id = jobs.id AND origin IS NOT NULL
    ))
    AND NOT EXISTS (
        SELECT 1 FROM batches WHERE batches.id = jobs.batch_id AND stage = 'filling'
    )
ORDER BY
    CASE WHEN :by_duration THEN :sign * (
        coalesce(completed_at, 0) - coalesce(started_at, completed_at, 0)
    ) END,
    CASE WHEN :sign > 0 THEN id END,
    CASE WHEN :sign < 0 THEN id END DESC
LIMIT :limit OFFSET :offset;
