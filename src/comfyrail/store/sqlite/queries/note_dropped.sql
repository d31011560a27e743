UPDATE endpoints SET dropped = dropped + 1 WHERE id = :endpoint_id AND is_enabled;
