-- A write that changes nothing of value: proves that commits reach the disk.
INSERT INTO probes (id, at) VALUES (1, :now) ON CONFLICT (id) DO UPDATE SET at = excluded.at;
