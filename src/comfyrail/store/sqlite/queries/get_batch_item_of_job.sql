SELECT batch_items.*, jobs.state FROM jobs
JOIN batch_items ON batch_items.batch_id = jobs.batch_id AND batch_items.number = jobs.batch_index
WHERE jobs.id = :job_id AND jobs.batch_id = :batch_id;
