"""What a page of ours may load and run in a browser, by where it lies [11.3].

Whatever is not listed may load nothing: a file that a user has made and a browser shows, such as an
SVG, must not act in the name of whoever looks at it.
"""

from comfyrail.api.comfyui.editor_files import inline_script_hashes

_EVERYWHERE = "base-uri 'none'; frame-ancestors 'none'; object-src 'none'"
NOTHING = f"default-src 'none'; form-action 'none'; {_EVERYWHERE}".encode()
PLAIN_PAGE = (
    f"default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; {_EVERYWHERE}"
).encode()

DOCS_PAGE = (
    f"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    f"connect-src 'self'; form-action 'none'; {_EVERYWHERE}"
).encode()
# Ours: scripts and styles are files of the server; what somebody has dropped is shown from memory.
PAGE = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; "
    "media-src 'self' blob:; connect-src 'self'; form-action 'self'; "
    f"{_EVERYWHERE}"
).encode()
# ComfyUI's editor: it compiles templates, and makes styles, workers and pictures on the fly.
EDITOR = (
    f"default-src 'self'; script-src 'self' 'unsafe-eval' blob: {inline_script_hashes()}; "
    "worker-src 'self' blob:; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; media-src 'self' data: blob:; "
    "font-src 'self' data:; connect-src 'self' data: blob:; form-action 'none'; "
    f"{_EVERYWHERE}"
).encode()

WHOLE_PATHS: dict[str, bytes] = {"/": PAGE, "/login": PLAIN_PAGE, "/docs": DOCS_PAGE}
PREFIXES: dict[str, bytes] = {"/editor/": EDITOR}
"""By the beginning of the path, with the slash at its end. The first that fits counts."""


def policy_of(path: str) -> bytes:
    found = WHOLE_PATHS.get(path)
    if found is not None:
        return found
    for prefix, policy in PREFIXES.items():
        if path.startswith(prefix):
            return policy
    return NOTHING
