-- Newest first, through all of a tenant's. Lines that end in a name count only where it is given.
-- Those of earlier attempts are left out where their job has better ones.
SELECT outputs.*, (SELECT workflow_id FROM jobs WHERE jobs.id = outputs.job_id) AS workflow_id
FROM outputs INDEXED BY outputs_of_tenant
WHERE outputs.tenant = :tenant
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
    AND (NOT outputs.is_partial OR (
        (SELECT state FROM jobs WHERE jobs.id = outputs.job_id) <> 'completed'
        AND outputs.attempt = (
            SELECT max(latest.attempt) FROM outputs AS latest WHERE latest.job_id = outputs.job_id
        )
    ))
ORDER BY outputs.id DESC
LIMIT :limit;
