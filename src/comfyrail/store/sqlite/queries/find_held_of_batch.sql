SELECT * FROM jobs
WHERE batch_id = :batch_id AND batch_index > :after AND state = 'queued' AND held_until = :until
ORDER BY batch_index
LIMIT :limit;
