UPDATE replies SET fingerprint = :fingerprint, status = :status, headers = :headers, body = :body
WHERE tenant = :tenant AND key = :key AND owner = :owner AND status IS NULL;
