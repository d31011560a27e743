"""Real services for tests, from PyPI packages: started on free ports, always ended."""
