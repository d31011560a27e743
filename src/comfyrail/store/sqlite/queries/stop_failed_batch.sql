-- A job of it has failed: nothing to do unless that is to end it.
UPDATE batches SET stopped_at = :now
WHERE id = :batch_id AND stop_on_error = 1 AND stopped_at IS NULL;
