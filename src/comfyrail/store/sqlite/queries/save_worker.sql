INSERT INTO workers (id, driver, endpoint, added_at, pool, config, labels, is_cordoned)
VALUES (:id, :driver, :endpoint, :added_at, :pool, :config, :labels, :is_cordoned)
ON CONFLICT (id) DO UPDATE SET
    driver = excluded.driver, endpoint = excluded.endpoint, pool = excluded.pool,
    config = excluded.config, labels = excluded.labels, is_cordoned = excluded.is_cordoned;
