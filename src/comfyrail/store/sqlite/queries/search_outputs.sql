-- Newest first. Those of earlier attempts are left out where their job has better ones.
SELECT outputs.*, jobs.workflow_id FROM outputs
JOIN jobs ON jobs.id = outputs.job_id
WHERE outputs.tenant = :tenant
    AND (:after IS NULL OR outputs.id < :after)
    AND (:created_from IS NULL OR outputs.id >= :created_from)
    AND (:created_before IS NULL OR outputs.id < :created_before)
    AND (:job_id IS NULL OR outputs.job_id = :job_id)
    AND (:batch_id IS NULL OR jobs.batch_id = :batch_id)
    AND (:node_id IS NULL OR outputs.node_id = :node_id)
    AND (:tier IS NULL OR outputs.tier = :tier)
    AND (:with_temporary OR NOT outputs.is_temporary)
    AND (:with_gone OR outputs.gone_at IS NULL)
    AND (:kinds IS NULL OR EXISTS (
        SELECT 1 FROM json_each(:kinds) WHERE outputs.kind = value
            OR outputs.content_type GLOB value || '/*' OR outputs.content_type = value
    ))
    AND (:workflow IS NULL OR jobs.workflow_id = :workflow
        OR jobs.workflow_id GLOB :any_version)
    AND (:text IS NULL OR outputs.job_id IN (
        SELECT indexed_jobs.job_id FROM job_texts
        JOIN indexed_jobs ON indexed_jobs.number = job_texts.rowid
        WHERE job_texts MATCH :text
    ) OR instr(lower(outputs.filename), :filename) > 0)
    AND (NOT outputs.is_partial OR (jobs.state <> 'completed' AND outputs.attempt = (
        SELECT max(latest.attempt) FROM outputs AS latest WHERE latest.job_id = outputs.job_id
    )))
ORDER BY outputs.id DESC
LIMIT :limit;
