SELECT fingerprint, batch_id FROM batch_keys
WHERE tenant = :tenant AND key = :key AND created_at > :oldest;
