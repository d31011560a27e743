INSERT INTO events (job_id, number, type, at, data) VALUES (:job_id, :number, :type, :at, :data);
