SELECT fingerprint, object_info FROM catalogs;
