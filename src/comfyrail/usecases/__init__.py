"""All that any surface may do, one file a subject."""
