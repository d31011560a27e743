UPDATE jobs SET webhook_delivered = :is_delivered WHERE id = :job_id;
