SELECT outputs.* FROM outputs
WHERE next_step_at <= :now AND (next_step_at, id) > (:after_step, :after_id)
ORDER BY next_step_at, id
LIMIT :limit;
