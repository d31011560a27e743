"""What the nodes that save files write into them beside the pixels."""

import math
from collections.abc import Mapping
from typing import Any

from comfyrail.engine.embedded_texts import embedded_texts
from comfyrail.engine.file_hash import content_hash
from comfyrail.engine.folders import Folders

_FILE_INPUTS = {
    "LoadImage": "image",
    "LoadImageMask": "image",
    "LoadImageOutput": "image",
    "WebcamCapture": "image",
    "LoadLatent": "latent",
}


def texts_to_embed(prompt: Any, extra_pnginfo: Any, folders: Folders) -> dict[str, str]:
    """The graph and what the client sent along, as JSON by key.

    As in ComfyUI, nodes of the graph that load a file have its hash with them.
    """
    if not isinstance(prompt, Mapping):
        return embedded_texts(prompt, extra_pnginfo)
    marked = {node_id: _with_hash(entry, folders) for node_id, entry in prompt.items()}
    return embedded_texts(marked, extra_pnginfo)


def _with_hash(entry: Any, folders: Folders) -> Any:
    if not isinstance(entry, Mapping) or "is_changed" in entry:
        return entry
    name = _FILE_INPUTS.get(str(entry.get("class_type")))
    if name is None:
        return entry
    value = (entry.get("inputs") or {}).get(name)
    return {**entry, "is_changed": _hash_of(value, folders)}


def _hash_of(name: Any, folders: Folders) -> list[str] | float:
    """Not a number where there is no such file, or where it is not known before the run."""
    path = folders.locate(name) if isinstance(name, str) else None
    if path is None:
        return math.nan
    try:
        return [content_hash(path)]
    except OSError:
        return math.nan
