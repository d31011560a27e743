-- One that is enabled again has not failed yet.
UPDATE endpoints
SET url = :url, address = :address, settings = :settings, patience = :patience,
    failing_since = CASE WHEN :is_enabled AND NOT is_enabled THEN NULL ELSE failing_since END,
    failing_days = CASE WHEN :is_enabled AND NOT is_enabled THEN 0 ELSE failing_days END,
    made_by = (SELECT users.id FROM users WHERE users.id = :made_by),
    is_enabled = :is_enabled, disabled_reason = :disabled_reason, changed_at = :changed_at
WHERE id = :id AND tenant = :tenant AND job_id IS NULL
RETURNING *;
