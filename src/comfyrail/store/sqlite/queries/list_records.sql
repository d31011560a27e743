SELECT * FROM execution_records WHERE sequence > :after ORDER BY sequence;
