SELECT job_id, number, type, at, data FROM events
WHERE job_id = :job_id AND number > :number
ORDER BY number
LIMIT :limit;
