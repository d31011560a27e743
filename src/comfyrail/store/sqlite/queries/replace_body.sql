UPDATE delivery_bodies SET content_type = :content_type, body = :body WHERE sequence = :sequence;
