-- last_event: the queued event is written with it.
INSERT INTO jobs (
    id, tenant, state, reason, priority, rank, queue_class, queue_group, effective_priority,
    not_before, held_until, queue_timeout, expires_at, batch_id, batch_index, batch_name,
    timeout_seconds, expected_seconds, estimated_cost, submitted_at, total_nodes, max_retries,
    surface, origin_key, alias, workflow_id, tells, last_event
)
VALUES (
    :id, :tenant, 'queued', :reason, :priority, :rank, :queue_class, :queue_group,
    :effective_priority, :not_before, :held_until, :queue_timeout, :expires_at, :batch_id,
    :batch_index, :batch_name, :timeout_seconds, :expected_seconds, :estimated_cost,
    :submitted_at, :total_nodes, :max_retries, :surface, :origin_key, :alias, :workflow_id, :tells, 1
);
