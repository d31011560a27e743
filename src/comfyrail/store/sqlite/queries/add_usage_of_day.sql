INSERT INTO usage_days (tenant, day, submitted, completed, failed, cancelled, gpu_seconds, cost)
VALUES (:tenant, :day, :submitted, :completed, :failed, :cancelled, :gpu_seconds, :cost)
ON CONFLICT (tenant, day) DO UPDATE
SET submitted = submitted + excluded.submitted, completed = completed + excluded.completed,
    failed = failed + excluded.failed, cancelled = cancelled + excluded.cancelled,
    gpu_seconds = gpu_seconds + excluded.gpu_seconds, cost = cost + excluded.cost;
