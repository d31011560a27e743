DELETE FROM jobs
WHERE id IN (SELECT id FROM jobs WHERE batch_id = :batch_id LIMIT :limit)
RETURNING id;
