UPDATE queue_state SET paused_at = :paused_at, reason = :reason, paused_total = :paused_total
WHERE id = 1;
