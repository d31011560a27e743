SELECT outputs.* FROM outputs
WHERE next_step_at <= :now
ORDER BY next_step_at
LIMIT :limit;
