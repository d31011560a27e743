"""Telling those who asked: streams of a job's events."""
