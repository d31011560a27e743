INSERT INTO signing_secrets (tenant, secret) VALUES (:tenant, :secret)
ON CONFLICT (tenant) DO UPDATE
SET previous_secret = signing_secrets.secret, previous_until = :previous_until, secret = :secret
RETURNING *;
