SELECT * FROM jobs
WHERE tenant = :tenant AND state = 'processing'
    AND (coalesce(started_at, 0), id) > (:key, :job_id)
ORDER BY coalesce(started_at, 0), id
LIMIT :limit;
