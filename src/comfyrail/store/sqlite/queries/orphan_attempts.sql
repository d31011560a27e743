-- The data folder is locked by this process, so no other owner can be alive.
UPDATE attempts SET owner = NULL WHERE state = 'running';
