"""API v1: webhooks and other notifications, deliveries, dead letters."""
