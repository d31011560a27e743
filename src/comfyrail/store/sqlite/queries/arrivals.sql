SELECT submitted_at / 60000 AS minute, count(*) AS jobs, sum(expected_seconds) AS seconds FROM jobs
WHERE id >= :first_id AND submitted_at >= :since
GROUP BY minute;
