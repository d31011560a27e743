INSERT INTO outputs (
    job_id, id, attempt, position, is_partial, created_at, node_id, kind, filename, subfolder,
    is_temporary, content_type, size, sha256, blob_key, blake3
)
VALUES (
    :job_id, :id, :attempt, :position, :is_partial, :created_at, :node_id, :kind, :filename,
    :subfolder, :is_temporary, :content_type, :size, :sha256, :blob_key, :blake3
);
