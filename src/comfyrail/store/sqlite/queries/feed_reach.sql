-- The number of the last of the next so many events.
SELECT max(sequence) AS sequence, count(*) AS events FROM (
    SELECT sequence FROM events
    WHERE tenant = :tenant AND sequence > :after
    ORDER BY sequence
    LIMIT :limit
);
