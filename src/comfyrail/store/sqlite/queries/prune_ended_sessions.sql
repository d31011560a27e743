DELETE FROM ended_sessions WHERE until <= :now;
