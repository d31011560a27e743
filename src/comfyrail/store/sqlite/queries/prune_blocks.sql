DELETE FROM ip_blocks WHERE expires_at IS NOT NULL AND expires_at <= :now;
