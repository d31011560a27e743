-- Equal files are kept once.
SELECT coalesce(sum(size), 0) AS bytes FROM (
    SELECT DISTINCT blob_key, size FROM outputs WHERE gone_at IS NULL
);
