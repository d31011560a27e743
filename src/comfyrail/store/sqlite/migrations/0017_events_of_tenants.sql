-- Every event says whose it is, so that all of a tenant's are read in one order. Those of no job
-- are of the server and its workers; their tenant is ''.
CREATE TABLE new_events (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    job_id TEXT REFERENCES jobs (id) ON DELETE CASCADE,
    number INTEGER,
    type TEXT NOT NULL,
    at INTEGER NOT NULL,
    data BLOB NOT NULL,
    UNIQUE (job_id, number),
    CHECK ((job_id IS NULL) = (number IS NULL))
) STRICT;

INSERT INTO new_events (sequence, tenant, job_id, number, type, at, data)
SELECT events.sequence, jobs.tenant, events.job_id, events.number, events.type, events.at, events.data
FROM events JOIN jobs ON jobs.id = events.job_id
ORDER BY events.sequence;

DROP TABLE events;
ALTER TABLE new_events RENAME TO events;
CREATE INDEX events_of_tenant ON events (tenant, sequence);

-- What a submission wants done with its outputs.
ALTER TABLE job_prompts ADD COLUMN output_config BLOB;
