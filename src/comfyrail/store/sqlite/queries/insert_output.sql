INSERT INTO outputs (
    job_id, id, attempt, position, is_partial, created_at, node_id, kind, filename, name_key,
    subfolder, is_temporary, content_type, size, sha256, blob_key, blake3, tenant, retention,
    next_step_at
)
VALUES (
    :job_id, :id, :attempt, :position, :is_partial, :created_at, :node_id, :kind, :filename,
    casefold(:filename), :subfolder, :is_temporary, :content_type, :size, :sha256, :blob_key,
    :blake3, :tenant,
    (SELECT json_extract(CAST(output_config AS TEXT), '$.retention') FROM job_prompts
        WHERE job_prompts.job_id = :job_id),
    :next_step_at
);
