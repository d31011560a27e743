INSERT INTO signing_secrets (tenant, secret) VALUES (:tenant, :secret) ON CONFLICT DO NOTHING;
