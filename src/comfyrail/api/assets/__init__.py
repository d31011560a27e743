"""API v1: files that users give."""
