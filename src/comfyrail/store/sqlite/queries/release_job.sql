UPDATE jobs SET held_until = NULL, expires_at = :expires_at,
    reason = CASE WHEN reason = 'scheduled' THEN NULL ELSE reason END
WHERE id = :job_id
RETURNING *;
