UPDATE workers SET is_cordoned = :is_cordoned WHERE id = :worker_id;
