-- Who wants a worker (a caller of the API, or the fleet file), and whether it was drained.
ALTER TABLE workers ADD COLUMN origin TEXT NOT NULL DEFAULT 'api' CHECK (origin IN ('api', 'file'));
ALTER TABLE workers ADD COLUMN is_drained INTEGER NOT NULL DEFAULT 0;

-- Workers that --workers made before there were pools have no settings: they are of its pool now.
-- Those that someone added by that name since then have settings, and stay what they are.
UPDATE workers SET pool = 'local'
WHERE driver = 'local' AND pool IS NULL AND config IS NULL
    AND id GLOB 'local-[1-9]*' AND substr(id, 7) NOT GLOB '*[^0-9]*';

-- local-0 is where is remembered what the workers of that pool can run.
UPDATE workers SET id = 'former-local-0'
WHERE id = 'local-0' AND pool IS NULL
    AND NOT EXISTS (SELECT 1 FROM workers WHERE id = 'former-local-0');
