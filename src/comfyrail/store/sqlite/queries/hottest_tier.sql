-- Of all that refer to a blob; files of users and of jobs that have not ended are wanted at once.
SELECT CASE
    WHEN EXISTS (SELECT 1 FROM assets WHERE blob_key = :blob_key)
        OR EXISTS (SELECT 1 FROM job_inputs WHERE blob_key = :blob_key) THEN 0
    ELSE (
        SELECT min(CASE tier
            WHEN 'immediate' THEN 0 WHEN 'standard' THEN 1 WHEN 'archive' THEN 2 ELSE 3
        END)
        FROM outputs
        WHERE blob_key = :blob_key AND gone_at IS NULL
            AND NOT (job_id = :job_id AND id = :output_id)
    )
END AS warmth;
