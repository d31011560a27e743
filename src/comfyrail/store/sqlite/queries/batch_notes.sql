SELECT number, note FROM batch_items INDEXED BY batch_items_noted
WHERE batch_id = :batch_id AND note IS NOT NULL
ORDER BY number
LIMIT :limit;
