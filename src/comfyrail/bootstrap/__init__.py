"""The only place that wires parts together."""
