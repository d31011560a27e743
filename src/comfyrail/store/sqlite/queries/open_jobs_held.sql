-- Nobody knows of a batch that is filling: its jobs are held until the last moment there is.
SELECT * FROM jobs INDEXED BY jobs_held
WHERE state = 'queued' AND held_until IS NOT NULL AND held_until < 253402300799000
    AND held_until >= :key AND (held_until, id) > (:key, :job_id) AND tenant = :tenant
ORDER BY held_until, id
LIMIT :limit;
