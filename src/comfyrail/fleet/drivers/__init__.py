"""Where workers come from: one file a driver."""
