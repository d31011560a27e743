SELECT * FROM delivery_tries WHERE sequence = :sequence ORDER BY number DESC LIMIT :limit;
