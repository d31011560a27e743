UPDATE batches SET stopped_at = coalesce(stopped_at, :now), is_watched = 1 WHERE id = :batch_id;
