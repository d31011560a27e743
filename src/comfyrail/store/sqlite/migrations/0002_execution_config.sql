-- How the engine carries a job out, where the request says it.
ALTER TABLE job_prompts ADD COLUMN execution_config BLOB;
