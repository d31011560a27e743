-- Newest first, of few jobs among many. Lines that end in a name count only where it is given; the
-- plus signs keep SQLite from choosing an index that finds nearly all of them. Nobody knows of a
-- batch that is filling.
SELECT jobs.* FROM jobs
WHERE jobs.tenant = :tenant
    AND jobs.id < :after --? after
    AND jobs.id >= :id_from AND jobs.id < :id_before --? id_from
    AND jobs.id IN ( --? id_end
        SELECT ended.id FROM jobs AS ended INDEXED BY jobs_of_tenant --? id_end
        WHERE ended.tenant = :tenant AND substr(ended.id, -length(:id_end)) = :id_end --? id_end
    ) --? id_end
    AND jobs.batch_id = :batch_id --? batch_id
    AND jobs.workflow_id = :version --? version
    AND jobs.id IN ( --? versions_from
        SELECT made.id FROM jobs AS made INDEXED BY jobs_of_workflow --? versions_from
        WHERE made.tenant = :tenant AND made.workflow_id IS NOT NULL --? versions_from
            AND made.workflow_id >= :versions_from --? versions_from
            AND made.workflow_id < :versions_before --? versions_from
    ) --? versions_from
    AND jobs.id IN ( --? words
        SELECT indexed_jobs.job_id FROM job_texts --? words
        CROSS JOIN indexed_jobs ON indexed_jobs.number = job_texts.rowid --? words
        WHERE job_texts MATCH :words --? words
    ) --? words
    AND jobs.id IN ( --? name
        SELECT outputs.job_id FROM outputs INDEXED BY outputs_of_tenant --? name
        WHERE outputs.tenant = :tenant AND instr(outputs.name_key, :name) > 0 --? name
    ) --? name
    AND +jobs.state IN (SELECT value FROM json_each(:states)) --? states
    AND +jobs.surface = :surface --? surface
    AND +jobs.origin_key = :origin_key --? origin_key
    AND +jobs.submitted_at >= :submitted_from --? submitted_from
    AND +jobs.submitted_at < :submitted_before --? submitted_before
    AND NOT EXISTS (
        SELECT 1 FROM batches WHERE batches.id = jobs.batch_id AND stage = 'filling'
    )
ORDER BY jobs.id DESC
LIMIT :limit;
