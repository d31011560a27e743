INSERT INTO workers (
    id, driver, endpoint, added_at, pool, config, labels, origin, is_cordoned, is_drained
)
VALUES (
    :id, :driver, :endpoint, :added_at, :pool, :config, :labels, :origin, :is_cordoned, :is_drained
)
ON CONFLICT (id) DO UPDATE SET
    driver = excluded.driver, endpoint = excluded.endpoint, pool = excluded.pool,
    config = excluded.config, labels = excluded.labels, origin = excluded.origin,
    is_cordoned = excluded.is_cordoned, is_drained = excluded.is_drained;
