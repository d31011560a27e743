-- Jobs at whose end the server has something to do: written with the job, gone when that is done.
CREATE TABLE followed_jobs (
    job_id TEXT PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,
    tenant TEXT NOT NULL
) STRICT, WITHOUT ROWID;
