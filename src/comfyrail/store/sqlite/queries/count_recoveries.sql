SELECT recovery, count(*) AS attempts FROM attempts
WHERE job_id = :job_id AND recovery IS NOT NULL
GROUP BY recovery;
