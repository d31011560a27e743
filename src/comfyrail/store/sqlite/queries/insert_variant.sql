INSERT OR REPLACE INTO media_variants (
    blob_key, name, variant_key, content_type, width, height, size
)
VALUES (:blob_key, :name, :variant_key, :content_type, :width, :height, :size);
