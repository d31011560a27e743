INSERT INTO jobs (
    id, tenant, state, priority, rank, node_types, timeout_seconds, expected_seconds,
    submitted_at, total_nodes
)
VALUES (
    :id, :tenant, 'queued', :priority, :rank, :node_types, :timeout_seconds, :expected_seconds,
    :submitted_at, :total_nodes
);
