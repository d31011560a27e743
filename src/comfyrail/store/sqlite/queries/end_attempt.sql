UPDATE attempts SET state = :state, ended_at = :now, cause = :cause WHERE token = :token;
