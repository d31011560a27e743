UPDATE queue_state SET paused_at = :paused_at, reason = :reason WHERE id = 1;
