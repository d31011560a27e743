SELECT paused_at, reason FROM queue_state WHERE id = 1;
