"""Files that nodes wrote or will read: view and upload."""

import asyncio
import json
import mimetypes
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from comfyrail.engine.folders import Folders, path_inside, split_annotation
from comfyrail.engine.request_pictures import make_channel, make_preview, put_mask
from comfyrail.engine.server.replies import json_reply, refuse
from comfyrail.engine.server.uploads import store_upload
from comfyrail.engine.server.visits import SentFile, Visits
from comfyrail.engine.server.worker import Worker
from comfyrail.errors import MalformedRequest

Wishes = ParamSpec("Wishes")
Made = TypeVar("Made")
Form = Mapping[str, str | bytes | bytearray | web.FileField]

FORM_FAULTS = (
    ValueError,
    LookupError,
    TypeError,
    RuntimeError,
    AssertionError,
    HttpProcessingError,
)
"""What aiohttp raises, here and there, for a form that is not one."""

ACTIVE_CONTENT = frozenset(
    {
        "text/html",
        "application/xhtml+xml",
        "text/javascript",
        "application/javascript",
        "text/css",
        "text/xml",
        "application/xml",
        "image/svg+xml",
    }
)
"""What a browser would run with this worker's rights; it gets such files as downloads."""

MOST_PICTURES_AT_ONCE = 2
"""Each may take hundreds of megabytes while it is made."""


class FileRoutes:
    def __init__(self, worker: Worker) -> None:
        self._folders = worker.executor.folders
        self._visits = worker.visits
        self._pictures = asyncio.Semaphore(MOST_PICTURES_AT_ONCE)

    def table(self) -> list[web.RouteDef]:
        return [
            web.get("/view", self.view),
            web.post("/upload/image", self.upload_image),
            web.post("/upload/mask", self.upload_mask),
        ]

    async def view(self, request: web.Request) -> web.StreamResponse:
        query = request.query
        found = await asyncio.to_thread(
            find_file,
            self._folders,
            query.get("filename", ""),
            query.get("type"),
            query.get("subfolder", ""),
        )
        if isinstance(found, int):
            return web.Response(status=found)
        if "preview" in query:
            made = await self._make(make_preview, found, query["preview"])
        elif query.get("channel", "rgba") != "rgba":
            made = await self._make(make_channel, found, query["channel"])
        else:
            return _serve_file(found, self._visits)
        content, content_type = made
        return web.Response(body=content, content_type=content_type, headers=_headers(found.name))

    async def upload_image(self, request: web.Request) -> web.Response:
        fields = await _read_form(request)
        upload = _file_field(fields)
        content = await asyncio.to_thread(upload.file.read)
        return await self._store(fields, upload.filename, content)

    async def upload_mask(self, request: web.Request) -> web.Response:
        fields = await _read_form(request)
        upload = _file_field(fields)
        original = _read_reference(fields.get("original_ref"))
        found = await asyncio.to_thread(
            find_file,
            self._folders,
            str(original.get("filename", "")),
            original.get("type", "output"),
            str(original.get("subfolder", "")),
        )
        if isinstance(found, int):
            return web.Response(status=found)
        content = await self._make(put_mask, found, upload.file)
        return await self._store(fields, upload.filename, content)

    async def _make(
        self, function: Callable[Wishes, Made], *args: Wishes.args, **options: Wishes.kwargs
    ) -> Made:
        async with self._pictures:
            return await asyncio.to_thread(function, *args, **options)

    async def _store(self, fields: Form, filename: str, content: bytes) -> web.Response:
        kind = _text_field(fields, "type") or "input"
        root = self._folders.of(kind)
        if root is None:
            return refuse(f"There is no folder of the type {kind!r}. Use input, output or temp.")
        stored = await asyncio.to_thread(
            store_upload,
            root,
            _text_field(fields, "subfolder"),
            filename,
            content,
            overwrite=_text_field(fields, "overwrite") in ("true", "1"),
        )
        return json_reply({"name": stored.name, "subfolder": stored.subfolder, "type": kind})


def find_file(folders: Folders, filename: str, kind: object, subfolder: str) -> Path | int:
    """The file that a client means, or the status of the refusal."""
    if not filename:
        return 404
    name, annotated_kind = split_annotation(filename, "output")
    root = folders.of(str(annotated_kind if kind is None else kind))
    if root is None or name.startswith("/") or ".." in name or "\0" in name:
        return 400
    folder = path_inside(root, subfolder)
    if folder is None:
        return 403
    path = path_inside(folder, name.rsplit("/", 1)[-1])
    if path is None:
        return 403
    try:
        return path if path.is_file() else 404
    except OSError:
        return 404


def _serve_file(path: Path, visits: Visits) -> SentFile:
    guessed, encoding = mimetypes.guess_type(path.name)
    content_type = guessed if guessed and encoding is None else "application/octet-stream"
    headers = _headers(path.name)
    if content_type in ACTIVE_CONTENT:
        content_type = "application/octet-stream"
        headers = _headers(path.name, "attachment; ")
    return SentFile(path, {**headers, "Content-Type": content_type}, visits)


def _headers(filename: str, disposition: str = "") -> dict[str, str]:
    safe = "".join(char if char.isprintable() and char not in '"\\' else "_" for char in filename)
    return {
        "Content-Disposition": f'{disposition}filename="{safe}"',
        "X-Content-Type-Options": "nosniff",
    }


async def _read_form(request: web.Request) -> Form:
    try:
        return await request.post()
    except FORM_FAULTS as error:
        raise MalformedRequest(f"The form cannot be read: {error}") from error


def _text_field(fields: Form, name: str) -> str:
    value = fields.get(name, "")
    if not isinstance(value, str):
        raise MalformedRequest(f"The field '{name}' of the form must be a text.")
    return value


def _file_field(fields: Form) -> web.FileField:
    upload = fields.get("image")
    if not isinstance(upload, web.FileField) or not upload.filename:
        raise MalformedRequest("The form has no file in its field 'image'.")
    return upload


def _read_reference(text: Any) -> dict[str, Any]:
    try:
        reference = json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise MalformedRequest("original_ref must be a JSON object.") from error
    if not isinstance(reference, dict):
        raise MalformedRequest("original_ref must be a JSON object.")
    return reference
