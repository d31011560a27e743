SELECT * FROM signing_secrets WHERE tenant = :tenant;
