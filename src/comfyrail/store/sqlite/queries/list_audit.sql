SELECT * FROM audit_log
WHERE sequence < :before
    AND (:actor IS NULL OR actor = :actor)
    AND (:act IS NULL OR act = :act)
ORDER BY sequence DESC
LIMIT :limit;
