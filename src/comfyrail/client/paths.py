"""Text in the path of a request."""

from urllib.parse import quote


def quoted(text: str) -> str:
    """As one segment of a path, whatever is in it."""
    written = quote(text, safe="", errors="replace")
    return written.replace(".", "%2E") if written in {".", ".."} else written
