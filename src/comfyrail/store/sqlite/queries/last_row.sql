SELECT last_insert_rowid() AS sequence;
