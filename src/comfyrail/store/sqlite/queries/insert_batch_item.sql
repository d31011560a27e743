INSERT INTO batch_items (batch_id, number, job_id, name, parameters, note, is_settled)
VALUES (:batch_id, :number, :job_id, :name, :parameters, :note, :is_settled);
