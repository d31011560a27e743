SELECT * FROM workers ORDER BY added_at, id;
