UPDATE endpoints SET failing_since = :now WHERE id = :endpoint_id AND failing_since IS NULL;
