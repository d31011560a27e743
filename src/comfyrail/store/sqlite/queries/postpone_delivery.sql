-- It was not tried.
UPDATE deliveries SET next_at = :next_at, expires_at = expires_at + :next_at - :now,
    last_error = :reason
WHERE sequence = :sequence AND state = 'pending' AND next_at IS NOT NULL;
