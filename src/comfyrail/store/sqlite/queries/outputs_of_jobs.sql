-- Newest first, of few jobs among many: the jobs come first, and their outputs by them. Lines that
-- end in a name count only where it is given. Those of earlier attempts are left out where their
-- job has better ones.
SELECT outputs.*, jobs.workflow_id
FROM jobs CROSS JOIN outputs ON outputs.job_id = jobs.id
WHERE jobs.tenant = :tenant
    AND jobs.id = :job_id --? job_id
    AND jobs.batch_id = :batch_id --? batch_id
    AND jobs.workflow_id = :version --? version
    AND jobs.workflow_id >= :versions_from AND jobs.workflow_id < :versions_before --? versions_from
    AND jobs.id IN ( --? text
        SELECT indexed_jobs.job_id FROM job_texts --? text
        CROSS JOIN indexed_jobs ON indexed_jobs.number = job_texts.rowid --? text
        WHERE job_texts MATCH :text --? text
    ) --? text
    AND outputs.id IN (SELECT value FROM json_each(:ids)) --? ids
    AND outputs.id < :after --? after
    AND outputs.id >= :created_from --? created_from
    AND outputs.id < :created_before --? created_before
    AND instr(outputs.name_key, :name) > 0 --? name
    AND outputs.node_id = :node_id --? node_id
    AND outputs.tier = :tier --? tier
    AND (:with_temporary OR NOT outputs.is_temporary)
    AND (:with_gone OR outputs.gone_at IS NULL)
    AND (outputs.kind IN (SELECT value FROM json_each(:kinds)) --? kinds
        OR outputs.content_type IN (SELECT value FROM json_each(:kinds)) --? kinds
        OR substr(outputs.content_type, 1, instr(outputs.content_type, '/') - 1) --? kinds
            IN (SELECT value FROM json_each(:kinds))) --? kinds
    AND (NOT outputs.is_partial OR (jobs.state <> 'completed' AND outputs.attempt = (
        SELECT max(latest.attempt) FROM outputs AS latest WHERE latest.job_id = outputs.job_id
    )))
ORDER BY outputs.id DESC
LIMIT :limit;
