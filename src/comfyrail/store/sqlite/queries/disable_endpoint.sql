UPDATE endpoints SET is_enabled = 0, disabled_reason = :reason, changed_at = :now
WHERE id = :endpoint_id AND is_enabled
RETURNING *;
