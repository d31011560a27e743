"""Which job runs where, and when."""
