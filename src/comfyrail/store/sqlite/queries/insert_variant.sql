INSERT OR REPLACE INTO media_variants (
    blob_key, taken_for, name, variant_key, content_type, width, height, size
)
VALUES (
    :blob_key, :taken_for, :name, :variant_key, :content_type, :width, :height, :size
);
