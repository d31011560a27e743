-- Of each job the file that shows best what it has made, and how many files it has. Pictures and
-- films come before all else, saved ones before temporary ones. Those of earlier attempts are left
-- out where their job has better ones.
WITH ranked AS (
    SELECT
        outputs.*,
        row_number() OVER (
            PARTITION BY outputs.job_id
            ORDER BY
                CASE
                    WHEN outputs.content_type LIKE 'image/%' THEN 2 * outputs.is_temporary
                    WHEN outputs.content_type LIKE 'video/%' THEN 2 * outputs.is_temporary + 1
                    ELSE 4 + outputs.is_temporary
                END,
                outputs.attempt,
                outputs.position
        ) AS place,
        sum(NOT outputs.is_temporary) OVER (PARTITION BY outputs.job_id) AS saved,
        count(*) OVER (PARTITION BY outputs.job_id) AS files
    FROM json_each(:job_ids) AS wanted
    CROSS JOIN jobs ON jobs.id = wanted.value
    CROSS JOIN outputs ON outputs.job_id = jobs.id
    WHERE jobs.tenant = :tenant AND outputs.gone_at IS NULL
        AND (NOT outputs.is_partial OR (jobs.state <> 'completed' AND outputs.attempt = (
            SELECT max(latest.attempt) FROM outputs AS latest WHERE latest.job_id = jobs.id
        )))
)
SELECT * FROM ranked WHERE place = 1;
