UPDATE endpoints
SET failing_since = coalesce(failing_since, :now), last_failed_at = :now,
    failing_days = failing_days
        + (failing_since IS NULL OR last_failed_at / 86400000 <> :now / 86400000)
WHERE id = :endpoint_id;
