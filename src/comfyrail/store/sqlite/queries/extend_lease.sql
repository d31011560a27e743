UPDATE attempts SET lease_expires_at = :lease_expires_at WHERE token = :token AND state = 'running'
RETURNING token;
