SELECT DISTINCT name FROM job_inputs WHERE name IN (SELECT value FROM json_each(:names));
