"""ComfyUI's own editor: the files of its PyPI package, an extra of this one."""

import mimetypes
from pathlib import Path

from fastapi import APIRouter
from fastapi.responses import FileResponse
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from comfyrail.api.comfyui.editor_files import PAGE, editor_folder
from comfyrail.errors import NotFound

EDITOR = "/editor"
FILE = EDITOR + "/{file:path}"
LOGIN = f"/login?next={EDITOR}/"
OPTIONAL: dict[str, str] = {"user.css": "text/css"}
"""The page asks for them, and no package has them."""
TEMPLATES = "templates/"
"""Workflows of a package of its own, which is not served."""
MISSING_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>No editor</title>
<h1>ComfyUI's editor is not installed</h1>
<p>Install it where the server runs, and start the server again:</p>
<pre>pip install "comfyrail[editor]"</pre>
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
        return FileResponse(root / PAGE, headers={"Cache-Control": "no-cache"})
    path = (root / file).resolve()
    if not path.is_relative_to(root) or not path.is_file():
        return _absent(file)
    return _send(path, file)


def _absent(file: str) -> Response:
    if file.startswith(TEMPLATES):
        return JSONResponse([])
    if file in OPTIONAL:
        return Response(media_type=OPTIONAL[file])
    raise NotFound(f"The editor has no file '{file[:200]}'.", code="FILE_NOT_FOUND")


def _send(path: Path, file: str) -> Response:
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    # Names in this folder change with their content.
    is_fixed = file.startswith("assets/")
    caching = "public, max-age=31536000, immutable" if is_fixed else "no-cache"
    return FileResponse(path, media_type=kind, headers={"Cache-Control": caching})
