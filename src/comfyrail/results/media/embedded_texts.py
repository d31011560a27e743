"""The graphs that ComfyUI writes into what it saves, among the texts of a file."""

import json
from collections.abc import Mapping

NAMES = ("prompt", "workflow")
LONGEST = 4 << 20


def graphs(texts: Mapping[str, str]) -> dict[str, str]:
    """Those of the texts that are graphs: JSON objects of a bearable size."""
    found = {}
    for name, text in texts.items():
        keyword = name.lower()
        if keyword in NAMES and len(text) <= LONGEST and _is_object(text):
            found[keyword] = text
    return found


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False
