INSERT INTO usage_months (tenant, month, jobs, gpu_seconds)
VALUES (:tenant, :month, :jobs, :gpu_seconds)
ON CONFLICT (tenant, month) DO UPDATE
SET jobs = jobs + excluded.jobs, gpu_seconds = gpu_seconds + excluded.gpu_seconds;
