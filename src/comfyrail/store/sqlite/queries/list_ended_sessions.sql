SELECT nonce, until FROM ended_sessions WHERE until > :now;
