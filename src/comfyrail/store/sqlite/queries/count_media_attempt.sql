UPDATE media SET attempts = attempts + 1
WHERE blob_key = :blob_key AND content_type = :content_type AND state = 'waiting';
