SELECT DISTINCT blob_key FROM outputs
WHERE blob_key IN (SELECT value FROM json_each(:keys));
