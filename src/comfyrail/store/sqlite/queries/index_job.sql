INSERT OR REPLACE INTO job_texts (rowid, tenant, text) VALUES (:number, :tenant, :text);
