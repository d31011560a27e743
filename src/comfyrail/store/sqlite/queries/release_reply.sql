DELETE FROM replies
WHERE tenant = :tenant AND key = :key AND owner = :owner AND status IS NULL;
