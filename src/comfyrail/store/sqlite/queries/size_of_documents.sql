SELECT coalesce(sum(length(content)), 0) AS size, count(*) AS documents FROM documents WHERE tenant = :tenant;
