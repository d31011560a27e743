INSERT INTO batches (
    id, tenant, tier, name, kind, stage, planned, stop_on_error, submitted_at, is_watched, search
)
VALUES (
    :id, :tenant, :tier, :name, :kind, :stage, :planned, :stop_on_error, :submitted_at,
    :is_watched, :search
);
