"""Sessions of browsers, and the page where they begin."""
