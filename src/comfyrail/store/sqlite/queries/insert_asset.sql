INSERT INTO assets (
    id, tenant, name, content_type, size, sha256, blake3, blob_key, created_at, expires_at
)
VALUES (
    :id, :tenant, :name, :content_type, :size, :sha256, :blake3, :blob_key, :created_at,
    :expires_at
);
