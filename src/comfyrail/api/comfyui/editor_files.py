"""Where the files of ComfyUI's editor are, and what its page runs."""

import base64
import hashlib
import re
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

PACKAGE = "comfyui_frontend_package"
PAGE = "index.html"

_INLINE_SCRIPT = re.compile(rb"<script>(.*?)</script>", re.DOTALL)


@lru_cache(maxsize=1)
def editor_folder() -> Path | None:
    """None where the package is not installed."""
    found = find_spec(PACKAGE)
    if found is None or not found.submodule_search_locations:
        return None
    folder = Path(found.submodule_search_locations[0]).resolve() / "static"
    return folder if (folder / PAGE).is_file() else None


def inline_script_hashes() -> str:
    """The scripts that are in the page itself, as a content policy allows them: those of this
    version and no others.
    """
    folder = editor_folder()
    if folder is None:
        return ""
    digests = (hashlib.sha256(each).digest() for each in _INLINE_SCRIPT.findall(_page(folder)))
    return " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)


def _page(folder: Path) -> bytes:
    try:
        return (folder / PAGE).read_bytes()
    except OSError:
        return b""
