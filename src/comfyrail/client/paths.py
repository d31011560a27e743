"""Text in the path of a request."""

from collections.abc import Sequence
from urllib.parse import quote


def quoted(text: str) -> str:
    """As one segment of a path, whatever is in it."""
    written = quote(text, safe="", errors="replace")
    return written.replace(".", "%2E") if written in {".", ".."} else written


def query(**words: str | Sequence[str] | None) -> str:
    """Behind a path, with its question mark; what is None is left out."""
    pairs = []
    for name, given in words.items():
        values = [given] if isinstance(given, str) else given or ()
        pairs += [f"{name}={quote(value, safe='', errors='replace')}" for value in values]
    return f"?{'&'.join(pairs)}" if pairs else ""
