SELECT outputs.* FROM outputs
JOIN jobs ON jobs.id = outputs.job_id
WHERE outputs.blob_key >= substr(:start, 1, 2) || '/' || :start
    AND outputs.blob_key < substr(:start, 1, 2) || '/' || :start || 'g'
    AND jobs.tenant = :tenant AND outputs.gone_at IS NULL
ORDER BY outputs.filename <> :filename
LIMIT 1;
