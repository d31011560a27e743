INSERT INTO ended_sessions (nonce, until) VALUES (:nonce, :until) ON CONFLICT (nonce) DO NOTHING;
