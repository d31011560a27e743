"""The ways in which something is sent: calls over HTTP, emails, text messages, files."""
