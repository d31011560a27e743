UPDATE attempts
SET token = :token, owner = :owner, lease_expires_at = :lease_expires_at
WHERE token = :old_token;
