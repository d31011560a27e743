SELECT blob_key FROM outputs WHERE blob_key IN (SELECT value FROM json_each(:keys))
UNION
SELECT blob_key FROM assets WHERE blob_key IN (SELECT value FROM json_each(:keys))
UNION
SELECT blob_key FROM job_inputs WHERE blob_key IN (SELECT value FROM json_each(:keys));
