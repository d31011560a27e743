SELECT paused_at, reason, paused_total FROM queue_state WHERE id = 1;
