SELECT * FROM events WHERE sequence = :sequence;
