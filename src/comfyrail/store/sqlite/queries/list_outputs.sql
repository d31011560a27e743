-- What earlier attempts had made is of no interest once one has made all of it, or as much again.
SELECT outputs.* FROM outputs
JOIN jobs ON jobs.id = outputs.job_id
WHERE outputs.job_id = :job_id AND (
    NOT outputs.is_partial
    OR (jobs.state <> 'completed' AND outputs.attempt = (
        SELECT max(latest.attempt) FROM outputs AS latest WHERE latest.job_id = :job_id
    ))
)
ORDER BY outputs.attempt, outputs.position;
