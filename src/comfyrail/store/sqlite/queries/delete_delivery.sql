DELETE FROM deliveries WHERE sequence = :sequence;
