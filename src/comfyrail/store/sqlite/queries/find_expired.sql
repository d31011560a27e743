SELECT token, owner FROM attempts WHERE state = 'running' AND lease_expires_at < :now;
