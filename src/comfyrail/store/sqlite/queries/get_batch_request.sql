SELECT request FROM batch_requests WHERE batch_id = :batch_id;
