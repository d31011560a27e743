DELETE FROM ip_blocks WHERE id = :block_id RETURNING *;
