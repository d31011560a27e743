SELECT 1 FROM batches
WHERE id = :batch_id AND (stopped_at IS NOT NULL OR cancelled_at IS NOT NULL);
