INSERT INTO delivery_tries (sequence, number, at, seconds, status, error, reply)
VALUES (:sequence, :number, :at, :seconds, :status, :error, :reply);
