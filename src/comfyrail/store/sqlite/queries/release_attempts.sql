-- The workers get the time of a lease to be taken up by the next server.
UPDATE attempts SET owner = NULL, lease_expires_at = :lease_expires_at
WHERE state = 'running' AND owner = :owner;
