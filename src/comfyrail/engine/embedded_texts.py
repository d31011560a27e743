"""What is written into the pictures that a workflow saves, so that it can be loaded from them."""

import json
from collections.abc import Mapping
from typing import Any

LONGEST_KEY = 79


def embedded_texts(prompt: Any, extra_pnginfo: Any) -> dict[str, str]:
    """The graph and what the client sent along, as JSON by key.

    A key that PNG cannot hold is left out: it must not cost the picture.
    """
    texts = {} if prompt is None else {"prompt": json.dumps(prompt)}
    if isinstance(extra_pnginfo, Mapping):
        texts |= {
            str(key): json.dumps(value)
            for key, value in extra_pnginfo.items()
            if _fits_png(str(key))
        }
    return texts


def _fits_png(key: str) -> bool:
    return 0 < len(key) <= LONGEST_KEY and key.isprintable() and max(key) <= "ÿ"
