INSERT OR REPLACE INTO idempotency_keys (tenant, key, fingerprint, job_id, created_at)
VALUES (:tenant, :key, :fingerprint, :job_id, :now);
