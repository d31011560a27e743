-- Those that run only where they are to be stopped too, and have not been asked yet.
SELECT * FROM jobs
WHERE batch_id = :batch_id AND state = 'queued'
UNION ALL
SELECT * FROM jobs
WHERE batch_id = :batch_id AND state = 'processing' AND cancel_requested = 0 AND :running
LIMIT :limit;
