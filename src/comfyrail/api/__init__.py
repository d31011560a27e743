"""HTTP surfaces: thin adapters over the use cases."""
