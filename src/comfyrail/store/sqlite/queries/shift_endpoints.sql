UPDATE endpoints
SET failing_since = failing_since + :milliseconds, last_failed_at = last_failed_at + :milliseconds,
    previous_until = previous_until + :milliseconds
WHERE failing_since IS NOT NULL OR previous_until IS NOT NULL;
