SELECT
    coalesce((SELECT bytes FROM stored_outputs WHERE tenant = :tenant), 0)
    + coalesce((SELECT sum(size) FROM assets WHERE tenant = :tenant), 0)
    + coalesce((SELECT sum(length(content)) FROM documents WHERE tenant = :tenant), 0) AS bytes;
