DELETE FROM workers WHERE id = :worker_id;
