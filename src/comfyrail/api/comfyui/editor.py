"""ComfyUI's own editor: the files of its PyPI package, an extra of this one."""

import asyncio
import mimetypes
from importlib import resources
from pathlib import Path

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from comfyrail.api.comfyui.editor_files import PAGE, editor_folder
from comfyrail.api.files import ranged_response
from comfyrail.errors import NotFound
from comfyrail.results.file_blob import FileBlob

EDITOR = "/editor"
FILE = EDITOR + "/{file:path}"
LOGIN = f"/login?next={EDITOR}/"
OPTIONAL: dict[str, str] = {"user.css": "text/css"}
"""The page asks for them, and no package has them."""
FIRST_SCREEN = "extensions/comfyrail/first_screen.js"
"""What this server adds to the page."""
TEMPLATES = "templates/"
"""Workflows of a package of its own, which is not served."""
MISSING_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>No editor</title>
<h1>ComfyUI's editor is not installed</h1>
<p>After <code>make run</code> it is there already. Otherwise, in a checkout, with the Python that
runs the server:</p>
<pre>pip install '.[editor]'</pre>
<p>Then start the server again.</p>
<p><a href="/">Start page</a></p>
</html>
"""

router = APIRouter(tags=["ComfyUI"])


@router.get(EDITOR)
async def show_editor() -> Response:
    """The page finds its files and this API below the folder that it is in."""
    return RedirectResponse(EDITOR + "/", 307)


@router.get(FILE)
async def send_file(request: Request, file: str) -> Response:
    """A file of the editor; the page itself for the folder."""
    root = editor_folder()
    if root is None:
        return HTMLResponse(MISSING_PAGE, 404)
    if not file or file == PAGE:
        if request.scope.get("principal") is None:
            return RedirectResponse(LOGIN, 303)
        return await _send(request, root / PAGE, PAGE)
    if file == FIRST_SCREEN:
        content = await asyncio.to_thread(_read_first_screen)
        return Response(content, 200, {"Cache-Control": "no-cache"}, "text/javascript")
    path = (root / file).resolve()
    if not path.is_relative_to(root) or not path.is_file():
        return _absent(file)
    return await _send(request, path, file)


def _read_first_screen() -> bytes:
    folder = resources.files("comfyrail.api.comfyui") / "editor_parts"
    return (folder / "first_screen.js").read_bytes()


def _absent(file: str) -> Response:
    if file.startswith(TEMPLATES):
        return JSONResponse([])
    if file in OPTIONAL:
        return Response(media_type=OPTIONAL[file])
    raise NotFound(f"The editor has no file '{file[:200]}'.", code="FILE_NOT_FOUND")


async def _send(request: Request, path: Path, file: str) -> Response:
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    # Names in this folder change with their content.
    is_fixed = file.startswith("assets/")
    caching = "public, max-age=31536000, immutable" if is_fixed else "no-cache"
    found = await asyncio.to_thread(path.stat)
    return ranged_response(
        request,
        FileBlob(path, found.st_size),
        tag=f'"{found.st_mtime_ns:x}-{found.st_size:x}"',
        media_type=kind,
        headers={"Cache-Control": caching},
    )
