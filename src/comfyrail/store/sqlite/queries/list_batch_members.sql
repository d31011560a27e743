SELECT
    batch_items.*, jobs.state, jobs.progress, jobs.started_at, jobs.completed_at, jobs.cost,
    jobs.fault
FROM batch_items LEFT JOIN jobs ON jobs.id = batch_items.job_id
WHERE batch_items.batch_id = :batch_id AND batch_items.number > :after
ORDER BY batch_items.number
LIMIT :limit;
