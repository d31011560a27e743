UPDATE batch_items SET score = :score, note = coalesce(:note, note), is_settled = 1
WHERE batch_id = :batch_id AND number = :number AND is_settled = 0;
