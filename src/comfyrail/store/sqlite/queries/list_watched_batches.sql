SELECT
    *,
    EXISTS (
        SELECT 1 FROM jobs WHERE batch_id = batches.id AND state = 'failed'
    ) OR EXISTS (
        SELECT 1 FROM batch_items INDEXED BY batch_items_unmade
        WHERE batch_id = batches.id AND job_id IS NULL
    ) AS has_failed,
    EXISTS (
        SELECT 1 FROM jobs WHERE batch_id = batches.id AND state IN ('queued', 'processing')
    ) AS is_active,
    (
        SELECT count(*) FROM batch_items INDEXED BY batch_items_unsettled
        WHERE batch_id = batches.id AND is_settled = 0
    ) AS unsettled,
    (SELECT coalesce(max(number) + 1, 0) FROM batch_items WHERE batch_id = batches.id) AS made
FROM batches
WHERE is_watched = 1 AND stage <> 'filling' AND id > :after
ORDER BY id
LIMIT :limit;
