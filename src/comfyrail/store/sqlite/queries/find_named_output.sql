SELECT outputs.* FROM outputs
JOIN jobs ON jobs.id = outputs.job_id
WHERE outputs.job_id = :job_id AND jobs.tenant = :tenant AND outputs.filename = :filename
    AND outputs.is_temporary = :is_temporary AND outputs.gone_at IS NULL
    AND (:subfolder IS NULL OR outputs.subfolder = :subfolder)
ORDER BY outputs.position DESC
LIMIT 1;
