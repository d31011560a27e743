INSERT INTO events (tenant, job_id, number, type, at, data)
VALUES (:tenant, :job_id, :number, :type, :at, :data);
