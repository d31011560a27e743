-- What earlier attempts had made is of no interest once one has made all of it.
SELECT outputs.* FROM outputs
JOIN jobs ON jobs.id = outputs.job_id
WHERE outputs.job_id = :job_id AND NOT (jobs.state = 'completed' AND outputs.is_partial)
ORDER BY outputs.attempt, outputs.position;
