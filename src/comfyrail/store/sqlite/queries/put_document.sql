INSERT INTO documents (tenant, area, name, version, content, created_at, modified_at)
VALUES (:tenant, :area, :name, 1, :content, :now, :now)
ON CONFLICT (tenant, area, name) DO UPDATE
SET version = version + 1, content = :content, modified_at = :now
RETURNING version;
