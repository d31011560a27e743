-- The caller's own id of a job, and whether its owner has taken it out of the history.
ALTER TABLE jobs ADD COLUMN alias TEXT;
ALTER TABLE jobs ADD COLUMN is_hidden INTEGER NOT NULL DEFAULT 0;

CREATE UNIQUE INDEX jobs_by_alias ON jobs (tenant, surface, alias) WHERE alias IS NOT NULL;

-- What goes to the worker beside the graph, such as the editor's form of it, which is then written
-- into the files.
ALTER TABLE job_prompts ADD COLUMN extra_data BLOB;

CREATE INDEX jobs_hidden ON jobs (tenant, state) WHERE is_hidden = 1;
