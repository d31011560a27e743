DELETE FROM replies
WHERE tenant = :tenant AND status IS NOT NULL AND created_at <= (
    SELECT created_at FROM replies WHERE tenant = :tenant
    ORDER BY created_at DESC LIMIT 1 OFFSET :most
);
