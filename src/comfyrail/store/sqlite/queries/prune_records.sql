DELETE FROM execution_records WHERE sequence <= :last - :kept;
