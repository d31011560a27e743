SELECT * FROM batch_items WHERE batch_id = :batch_id AND score IS NOT NULL
ORDER BY score, number
LIMIT :limit;
