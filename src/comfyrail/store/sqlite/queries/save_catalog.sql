INSERT INTO catalogs (fingerprint, object_info) VALUES (:fingerprint, :object_info)
ON CONFLICT (fingerprint) DO NOTHING;
