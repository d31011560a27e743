SELECT
    (
        SELECT count(*) FROM batch_items INDEXED BY batch_items_unmade
        WHERE batch_id = :batch_id AND job_id IS NULL
    ) AS unmade,
    (
        SELECT count(*) FROM batch_items INDEXED BY batch_items_unsettled
        JOIN jobs ON jobs.id = batch_items.job_id
        WHERE batch_items.batch_id = :batch_id AND is_settled = 0 AND jobs.state = 'completed'
    ) AS awaiting_score;
