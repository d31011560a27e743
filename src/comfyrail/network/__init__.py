"""Requests to addresses that a user chose: only to public ones, and never more than was allowed."""
