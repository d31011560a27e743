DELETE FROM replies WHERE status IS NULL;
