SELECT job_id FROM batch_items WHERE batch_id = :batch_id AND job_id IS NOT NULL
ORDER BY number
LIMIT :limit;
