SELECT sequence FROM delivery_bodies WHERE sequence > :after ORDER BY sequence LIMIT :limit;
