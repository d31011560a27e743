UPDATE media SET state = :state, facts = :facts
WHERE blob_key = :blob_key
RETURNING blob_key;
