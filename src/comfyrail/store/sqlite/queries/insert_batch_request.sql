INSERT INTO batch_requests (batch_id, request) VALUES (:batch_id, :request);
