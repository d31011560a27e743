SELECT outputs.* FROM outputs
JOIN jobs ON jobs.id = outputs.job_id
WHERE outputs.blake3 = :blake3 AND jobs.tenant = :tenant AND outputs.gone_at IS NULL
LIMIT 1;
