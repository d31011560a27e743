UPDATE workers SET description = :description WHERE id = :worker_id;
