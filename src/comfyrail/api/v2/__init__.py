"""API v2: executions in nested parts, with links."""
