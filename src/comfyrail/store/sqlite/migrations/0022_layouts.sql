-- Where the nodes of a job's graph stood in the editor, by id; null where nobody said.
ALTER TABLE job_prompts ADD COLUMN layout BLOB;
