SELECT * FROM assets WHERE tenant = :tenant AND name = :name ORDER BY id DESC;
