SELECT * FROM ip_blocks WHERE expires_at IS NULL OR expires_at > :now ORDER BY network;
