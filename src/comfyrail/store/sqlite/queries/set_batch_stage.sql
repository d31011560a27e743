UPDATE batches SET stage = :stage WHERE id = :batch_id;
