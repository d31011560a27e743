DELETE FROM batch_keys WHERE created_at <= :oldest;
