SELECT content_type, body FROM delivery_bodies WHERE sequence = :sequence;
