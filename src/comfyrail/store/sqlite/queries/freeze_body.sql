INSERT INTO delivery_bodies (sequence, content_type, body)
SELECT sequence, :content_type, :body FROM deliveries WHERE sequence = :sequence
ON CONFLICT DO NOTHING;
