INSERT INTO audit_log (at, actor, key_id, act, target, details, address, request_id)
VALUES (:at, :actor, :key_id, :act, :target, :details, :address, :request_id);
