INSERT INTO attempts (
    job_id, number, worker_id, token, prompt_id, state, owner, lease_expires_at, started_at,
    placement
)
VALUES (
    :job_id, :number, :worker_id, :token, :token, 'running', :owner, :lease_expires_at, :now,
    :placement
);
