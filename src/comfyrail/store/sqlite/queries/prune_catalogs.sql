DELETE FROM catalogs
WHERE fingerprint NOT IN (
    SELECT catalog_fingerprint FROM workers WHERE catalog_fingerprint IS NOT NULL
);
