INSERT INTO workers (id, driver, endpoint, added_at) VALUES (:id, :driver, :endpoint, :added_at)
ON CONFLICT (id) DO UPDATE SET driver = excluded.driver, endpoint = excluded.endpoint;
