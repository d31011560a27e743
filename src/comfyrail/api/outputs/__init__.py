"""API v1: outputs of all jobs, and links to them."""
