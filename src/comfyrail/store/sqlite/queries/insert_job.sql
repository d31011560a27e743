-- last_event: the queued event is written with it.
INSERT INTO jobs (
    id, tenant, state, priority, rank, node_types, timeout_seconds, expected_seconds,
    estimated_cost, submitted_at, total_nodes, last_event
)
VALUES (
    :id, :tenant, 'queued', :priority, :rank, :node_types, :timeout_seconds, :expected_seconds,
    :estimated_cost, :submitted_at, :total_nodes, 1
);
