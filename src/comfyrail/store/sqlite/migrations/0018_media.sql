-- What files are, and what was made of them to look at. Equal files of one type are looked at once.
CREATE TABLE media (
    blob_key TEXT NOT NULL,
    content_type TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'ready', 'failed')),
    attempts INTEGER NOT NULL DEFAULT 0,
    added_at INTEGER NOT NULL,
    facts BLOB CHECK ((facts IS NULL) = (state = 'waiting')),
    PRIMARY KEY (blob_key, content_type)
) STRICT, WITHOUT ROWID;

CREATE INDEX media_waiting ON media (attempts, added_at) WHERE state = 'waiting';

CREATE TABLE media_variants (
    blob_key TEXT NOT NULL,
    taken_for TEXT NOT NULL,
    name TEXT NOT NULL,
    variant_key TEXT NOT NULL,
    content_type TEXT NOT NULL,
    width INTEGER,
    height INTEGER,
    size INTEGER NOT NULL,
    PRIMARY KEY (blob_key, taken_for, name),
    FOREIGN KEY (blob_key, taken_for) REFERENCES media (blob_key, content_type) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE INDEX media_variants_by_key ON media_variants (variant_key);

INSERT INTO media (blob_key, content_type, added_at)
SELECT blob_key, content_type, max(created_at)
FROM (
    SELECT blob_key, content_type, created_at FROM outputs
    UNION ALL
    SELECT blob_key, content_type, created_at FROM assets
)
WHERE content_type LIKE 'image/%' OR content_type LIKE 'video/%' OR content_type LIKE 'audio/%'
    OR content_type LIKE 'model/%' OR content_type LIKE 'text/%'
    OR content_type IN ('application/x-safetensors', 'application/zip')
GROUP BY blob_key, content_type;
