UPDATE endpoints
SET previous_secret = secret, previous_until = :previous_until, secret = :secret, changed_at = :now
WHERE id = :endpoint_id AND tenant = :tenant AND job_id IS NULL
RETURNING *;
