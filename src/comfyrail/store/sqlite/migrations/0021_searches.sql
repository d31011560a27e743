-- The name of an output's file as it is looked for: without upper and lower case. Whoever looks for
-- a part of it reads this index alone, newest first.
ALTER TABLE outputs ADD COLUMN name_key TEXT NOT NULL DEFAULT '';
UPDATE outputs SET name_key = casefold(filename);
DROP INDEX outputs_of_tenant;
CREATE INDEX outputs_of_tenant ON outputs (tenant, id, name_key);

-- What is due is gone through page by page; what is kept is summed up without the table itself.
DROP INDEX outputs_by_step;
CREATE INDEX outputs_by_step ON outputs (next_step_at, id) WHERE next_step_at IS NOT NULL;
CREATE INDEX outputs_kept ON outputs (blob_key, size, gone_at) WHERE gone_at IS NULL;
