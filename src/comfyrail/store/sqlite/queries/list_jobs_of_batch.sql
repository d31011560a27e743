-- Nobody knows of a batch that is filling.
SELECT * FROM jobs
WHERE batch_id = :batch_id AND tenant = :tenant
    AND (:surface IS NULL OR surface = :surface)
    AND (:origin_key IS NULL OR origin_key = :origin_key)
    AND (:state IS NULL OR state = :state)
    AND (:after IS NULL OR id < :after)
    AND (:submitted_from IS NULL OR submitted_at >= :submitted_from)
    AND (:submitted_before IS NULL OR submitted_at < :submitted_before)
    AND NOT EXISTS (
        SELECT 1 FROM batches WHERE batches.id = jobs.batch_id AND stage = 'filling'
    )
ORDER BY id DESC
LIMIT :limit;
