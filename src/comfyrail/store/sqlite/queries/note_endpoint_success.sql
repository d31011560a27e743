UPDATE endpoints SET failing_since = NULL, failing_days = 0, last_success_at = :now
WHERE id = :endpoint_id
    AND (failing_since IS NOT NULL OR last_success_at IS NULL OR last_success_at < :now - 60000);
