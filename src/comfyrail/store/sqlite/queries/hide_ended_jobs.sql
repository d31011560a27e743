UPDATE jobs SET is_hidden = 1
WHERE id IN (
    SELECT id FROM jobs
    WHERE tenant = :tenant AND state IN ('completed', 'failed', 'cancelled') AND is_hidden = 0
        AND id <= :newest
    LIMIT :limit
)
RETURNING id;
