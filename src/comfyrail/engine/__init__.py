"""Comfyrail's own graph executor and its worker server: a library of its own."""
