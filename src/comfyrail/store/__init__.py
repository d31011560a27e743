"""What must survive: jobs, attempts, events, outputs, workers. Interface and backends."""
