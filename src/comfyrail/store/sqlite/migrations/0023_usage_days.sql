-- What a tenant has used on a day (UTC, days since 1970).
CREATE TABLE usage_days (
    tenant TEXT NOT NULL,
    day INTEGER NOT NULL,
    submitted INTEGER NOT NULL,
    completed INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    cancelled INTEGER NOT NULL,
    gpu_seconds REAL NOT NULL,
    cost REAL NOT NULL,
    PRIMARY KEY (tenant, day)
) STRICT, WITHOUT ROWID;

-- Of earlier days, as far as the jobs still tell. How long workers took was not written down for each
-- attempt: from its beginning to its end comes close.
INSERT INTO usage_days (tenant, day, submitted, completed, failed, cancelled, gpu_seconds, cost)
SELECT
    tenant, day, sum(submitted), sum(completed), sum(failed), sum(cancelled), sum(gpu_seconds),
    sum(cost)
FROM (
    SELECT
        tenant, submitted_at / 86400000 AS day, 1 AS submitted, 0 AS completed, 0 AS failed,
        0 AS cancelled, 0.0 AS gpu_seconds, 0.0 AS cost
    FROM jobs
    WHERE NOT EXISTS (
        SELECT 1 FROM batches WHERE batches.id = jobs.batch_id AND stage = 'filling'
    )
    UNION ALL
    SELECT
        tenant, completed_at / 86400000, 0, state = 'completed', state = 'failed',
        state = 'cancelled', 0.0, coalesce(cost, 0.0)
    FROM jobs WHERE completed_at IS NOT NULL
    UNION ALL
    SELECT
        jobs.tenant, attempts.ended_at / 86400000, 0, 0, 0, 0,
        max(0, attempts.ended_at - attempts.started_at) / 1000.0, 0.0
    FROM attempts JOIN jobs ON jobs.id = attempts.job_id
    WHERE attempts.ended_at IS NOT NULL AND attempts.state <> 'lost'
)
GROUP BY tenant, day;

-- Jobs that have made nothing are found by their texts too.
INSERT OR IGNORE INTO jobs_to_index (job_id)
SELECT id FROM jobs
WHERE completed_at IS NOT NULL AND id NOT IN (SELECT job_id FROM indexed_jobs);
