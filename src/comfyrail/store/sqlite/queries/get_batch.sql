SELECT * FROM batches WHERE id = :batch_id;
