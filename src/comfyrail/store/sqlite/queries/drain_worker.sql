UPDATE workers SET is_drained = :is_drained, is_cordoned = :is_drained WHERE id = :worker_id;
