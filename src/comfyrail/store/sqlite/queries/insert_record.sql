INSERT INTO execution_records (record) VALUES (:record) RETURNING sequence;
