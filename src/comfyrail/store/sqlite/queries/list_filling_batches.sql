SELECT id FROM batches WHERE stage = 'filling';
