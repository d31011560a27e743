-- Nobody knows of a batch that is filling.
SELECT * FROM jobs
WHERE tenant = :tenant AND is_hidden = 0 AND state = :state
    AND NOT EXISTS (
        SELECT 1 FROM batches WHERE batches.id = jobs.batch_id AND stage = 'filling'
    )
ORDER BY id DESC
LIMIT :limit;
