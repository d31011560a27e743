SELECT k.fingerprint, j.* FROM idempotency_keys AS k JOIN jobs AS j ON j.id = k.job_id
WHERE k.tenant = :tenant AND k.key = :key AND k.created_at > :oldest;
