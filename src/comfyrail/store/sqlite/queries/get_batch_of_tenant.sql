SELECT * FROM batches WHERE id = :batch_id AND tenant = :tenant AND stage <> 'filling';
