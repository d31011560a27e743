SELECT value AS start FROM json_each(:starts)
WHERE EXISTS (SELECT 1 FROM assets WHERE sha256 >= value AND sha256 < value || 'g');
