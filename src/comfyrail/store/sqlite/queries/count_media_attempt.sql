UPDATE media SET attempts = attempts + 1 WHERE blob_key = :key AND state = 'waiting';
