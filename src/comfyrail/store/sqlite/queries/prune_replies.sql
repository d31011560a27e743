DELETE FROM replies WHERE created_at <= :oldest;
