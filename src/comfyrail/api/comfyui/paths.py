"""One name for each path: ComfyUI has all of its own twice, bare and below /api.

The editor asks below the address at which its page is: /editor/api, /editor/ws.
"""

import re

from starlette.types import ASGIApp, Receive, Scope, Send

WORDS = (
    "prompt|queue|interrupt|free|history|object_info|system_stats|features|embeddings|models|view"
    "|view_metadata|upload|extensions|settings|users|userdata|v2/userdata|experiment"
    "|workflow_templates|i18n|global_subgraphs|ws|api/jobs"
)
OWN = re.compile(rf"/(?:{WORDS}|internal)(?:/|$)")
"""Paths of this surface, by their one name."""

EDITOR_ICONS = (b"/assets/images/favicon_progress_16x16/", b"/assets/favicon.ico")
"""The editor asks for these as if it were at the root."""

_BELOW_API = re.compile(rb"/api(/(?:" + WORDS.encode() + rb")(?:[/?].*)?)", re.DOTALL)
_BELOW_EDITOR = re.compile(rb"/editor(/(?:api|ws|internal)(?:[/?].*)?)", re.DOTALL)


ALIASED = ("/api/", "/editor/", *(each.decode() for each in EDITOR_ICONS))


class OneNamePaths:
    """Around all else: whoever looks at a path sees its one name."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_request = scope["type"] in {"http", "websocket"}
        if is_request and scope["path"].startswith(ALIASED):
            path = one_name(scope["path"].encode()).decode()
            raw = one_name(scope.get("raw_path") or scope["path"].encode())
            scope = {**scope, "path": path, "raw_path": raw}
        await self._app(scope, receive, send)


def one_name(path: bytes) -> bytes:
    if path.startswith(EDITOR_ICONS):
        return b"/editor" + path
    for prefixed in (_BELOW_EDITOR, _BELOW_API):
        found = prefixed.fullmatch(path)
        path = found[1] if found else path
    return path
