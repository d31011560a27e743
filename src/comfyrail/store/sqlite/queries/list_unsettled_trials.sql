SELECT batch_items.*, jobs.state
FROM batch_items INDEXED BY batch_items_unsettled
LEFT JOIN jobs ON jobs.id = batch_items.job_id
WHERE batch_items.batch_id = :batch_id AND is_settled = 0
ORDER BY batch_items.number;
