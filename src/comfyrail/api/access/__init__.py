"""Users, API keys, usage, the audit log and blocked addresses."""
