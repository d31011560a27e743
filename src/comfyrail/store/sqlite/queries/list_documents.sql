SELECT name, version, length(content) AS size, created_at, modified_at FROM documents
WHERE tenant = :tenant AND area = :area
    AND name > :after AND substr(name, 1, length(:prefix)) = :prefix
ORDER BY name
LIMIT :limit;
