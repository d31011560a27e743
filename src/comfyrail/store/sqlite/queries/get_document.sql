SELECT * FROM documents WHERE tenant = :tenant AND area = :area AND name = :name;
