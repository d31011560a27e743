-- Among the tenant's last jobs: workers give the same names again and again, so that an index by name
-- would lead through the files of everybody.
SELECT outputs.* FROM (
    SELECT id FROM jobs WHERE tenant = :tenant ORDER BY id DESC LIMIT 10000
) AS recent
CROSS JOIN outputs ON outputs.job_id = recent.id
WHERE outputs.filename = :filename AND outputs.subfolder = :subfolder
    AND outputs.is_temporary = :is_temporary AND (outputs.gone_at IS NOT NULL) = :is_gone
ORDER BY recent.id DESC
LIMIT 1;
