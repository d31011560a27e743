UPDATE media SET state = :state, facts = :facts
WHERE blob_key = :blob_key AND content_type = :content_type
RETURNING blob_key;
