SELECT * FROM endpoints WHERE id = :endpoint_id;
