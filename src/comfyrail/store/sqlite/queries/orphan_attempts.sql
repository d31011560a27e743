-- The data folder is locked by this process, so no other owner can be alive. However long this
-- took, the workers get the time of a lease to connect, so that what still runs there is adopted.
UPDATE attempts SET owner = NULL, lease_expires_at = :lease_expires_at WHERE state = 'running';
