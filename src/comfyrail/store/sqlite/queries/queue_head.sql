SELECT id, rank, node_types FROM jobs
WHERE state = 'queued' AND (rank, id) > (:rank, :job_id)
ORDER BY rank, id
LIMIT :limit;
