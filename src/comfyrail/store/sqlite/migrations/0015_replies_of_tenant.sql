-- A tenant keeps so many replies only: the oldest are found by this.
CREATE INDEX replies_of_tenant ON replies (tenant, created_at);
