UPDATE workers SET catalog_fingerprint = :fingerprint WHERE id = :worker_id;
