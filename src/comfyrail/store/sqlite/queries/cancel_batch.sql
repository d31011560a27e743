UPDATE batches SET cancelled_at = coalesce(cancelled_at, :now), is_watched = 1
WHERE id = :batch_id;
