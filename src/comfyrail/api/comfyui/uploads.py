"""Files for nodes to load: /upload/image, /upload/mask."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import msgspec
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from comfyrail.api.comfyui.features import LARGEST_UPLOAD
from comfyrail.api.comfyui.view import KINDS, find_file, local_file, make_picture
from comfyrail.api.messages import announced_size, json_response
from comfyrail.api.multipart import Part, read_form
from comfyrail.api.services import principal_of, services_of
from comfyrail.errors import MalformedRequest, PayloadTooLarge
from comfyrail.usecases.asset_names import folder_of, plain_name

CHUNK = 1 << 20
IN_MEMORY = 1 << 20
FORM_OVERHEAD = 1 << 20
FILE_FIELD = "image"
TRUE = frozenset({"true", "1"})

router = APIRouter(tags=["ComfyUI"])

_decode_reference = msgspec.json.Decoder(dict[str, Any]).decode


@dataclass(frozen=True, slots=True)
class _Upload:
    """A form: its file may come before the fields that say what becomes of it."""

    file: IO[bytes]
    filename: str
    content_type: str | None
    fields: dict[str, str]


@router.post("/upload/image")
async def upload_image(request: Request) -> Response:
    """Keep a file under its name. One of the same name and other bytes gets another name."""
    async with _upload(request) as upload:
        return await _store(request, upload, _chunks(upload.file), upload.content_type)


@router.post("/upload/mask")
async def upload_mask(request: Request) -> Response:
    """The alpha of the mask goes into the picture that `original_ref` names."""
    async with _upload(request) as upload:
        services, reference = services_of(request), _reference(upload.fields)
        original = await find_file(
            services,
            principal_of(request),
            str(reference.get("filename", "")),
            str(reference.get("subfolder") or ""),
            str(reference.get("type") or "output"),
        )

        def compose(path: Path) -> tuple[bytes, str]:
            from comfyrail.engine.request_pictures import (  # noqa: PLC0415 - Pillow, when needed
                put_mask,
            )

            return put_mask(path, upload.file), "image/png"

        async with local_file(services, original) as path:
            content, kind = await make_picture(lambda: compose(path))
        return await _store(request, upload, _once(content), kind)


async def _store(
    request: Request, upload: _Upload, chunks: AsyncIterator[bytes], content_type: str | None
) -> Response:
    fields = upload.fields
    kind = fields.get("type") or "input"
    if kind not in KINDS:
        raise MalformedRequest(f"There is no folder {kind[:40]!r}. Use input, output or temp.")
    subfolder = fields.get("subfolder", "").strip("/")
    name = f"{subfolder}/{upload.filename}" if subfolder else upload.filename
    received = await services_of(request).assets.receive(
        principal_of(request),
        chunks,
        name=name,
        content_type=content_type,
        same_name="replace" if fields.get("overwrite", "").lower() in TRUE else "rename",
        folder=folder_of(kind),
    )
    folder, _, last = plain_name(received.asset.name).rpartition("/")
    return json_response({"name": last, "subfolder": folder, "type": kind})


@asynccontextmanager
async def _upload(request: Request) -> AsyncIterator[_Upload]:
    size = announced_size(request)
    if size is not None and size > LARGEST_UPLOAD + FORM_OVERHEAD:
        raise _too_large()
    with tempfile.SpooledTemporaryFile(IN_MEMORY) as file:
        found: Part | None = None
        fields: dict[str, str] = {}
        async for part in read_form(request):
            if not part.is_file:
                fields[part.name] = await part.text()
            elif part.name == FILE_FIELD and found is None:
                found = part
                await _spool(part, file)
        if found is None or not found.filename:
            raise MalformedRequest(f"The form has no file in its field '{FILE_FIELD}'.")
        file.seek(0)
        yield _Upload(file, found.filename, found.content_type, fields)


async def _spool(part: Part, file: IO[bytes]) -> None:
    size = 0
    async for chunk in part.chunks:
        size += len(chunk)
        if size > LARGEST_UPLOAD:
            raise _too_large()
        if size > IN_MEMORY:
            await asyncio.to_thread(file.write, chunk)
        else:
            file.write(chunk)


async def _chunks(file: IO[bytes]) -> AsyncIterator[bytes]:
    while chunk := await asyncio.to_thread(file.read, CHUNK):
        yield chunk


async def _once(content: bytes) -> AsyncIterator[bytes]:
    yield content


def _reference(fields: dict[str, str]) -> dict[str, Any]:
    try:
        return _decode_reference(fields.get("original_ref", ""))
    except (msgspec.MsgspecError, RecursionError) as error:
        raise MalformedRequest("original_ref must be a JSON object.") from error


def _too_large() -> PayloadTooLarge:
    return PayloadTooLarge(
        f"An upload here has {LARGEST_UPLOAD >> 20} MiB at most. Use POST /v1/uploads for more.",
        details={"limit": LARGEST_UPLOAD},
    )
