UPDATE deliveries SET next_at = next_at + :milliseconds, expires_at = expires_at + :milliseconds
WHERE state = 'pending';
