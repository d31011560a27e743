UPDATE attempts
SET state = :state, ended_at = :now, cause = :cause, fault = :fault, recovery = :recovery,
    retry_delay = :retry_delay
WHERE token = :token;
