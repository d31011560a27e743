"""Outputs: where the bytes are kept."""
