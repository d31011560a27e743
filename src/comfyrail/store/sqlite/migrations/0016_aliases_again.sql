-- A caller may give the id of a job that has ended to another: the newest is meant then.
DROP INDEX jobs_by_alias;
CREATE INDEX jobs_by_alias ON jobs (tenant, surface, alias, id) WHERE alias IS NOT NULL;
