UPDATE batches SET stage = 'opening', submitted_at = :now WHERE id = :batch_id;
