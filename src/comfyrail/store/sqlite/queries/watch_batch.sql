UPDATE batches SET is_watched = :is_watched WHERE id = :batch_id;
