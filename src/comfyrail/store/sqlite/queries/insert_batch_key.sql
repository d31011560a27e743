INSERT OR REPLACE INTO batch_keys (tenant, key, fingerprint, batch_id, created_at)
VALUES (:tenant, :key, :fingerprint, :batch_id, :now);
