-- What workers say of their machines, what jobs cost, and what past executions took.
ALTER TABLE workers ADD COLUMN description BLOB;
ALTER TABLE jobs ADD COLUMN estimated_cost REAL;
ALTER TABLE jobs ADD COLUMN cost REAL;

-- Apart from the jobs: a record outlives its job, and names no text, file or tenant.
CREATE TABLE execution_records (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    record BLOB NOT NULL
) STRICT;
