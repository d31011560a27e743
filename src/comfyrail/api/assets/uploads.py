"""API v1: uploads, whole or in parts."""

import re
from collections.abc import AsyncIterator
from typing import Annotated, get_args

import msgspec
from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from comfyrail.access.principal import Principal
from comfyrail.api.assets.contract import (
    ASSET,
    SESSION,
    SESSIONS,
    UPLOADS,
    SessionRequest,
    UploadReply,
    UploadRequest,
    asset_body,
    session_body,
)
from comfyrail.api.messages import (
    announced_size,
    content_type,
    json_response,
    read_json,
)
from comfyrail.api.multipart import FORM, Part, read_form, read_stream
from comfyrail.api.services import principal_of, services_of
from comfyrail.errors import ComfyrailError, MalformedRequest
from comfyrail.ids import JobId, OutputId
from comfyrail.store.assets import SameName
from comfyrail.usecases.asset_intake import file_too_large
from comfyrail.usecases.asset_names import NO_NAME
from comfyrail.usecases.assets import Assets, Received
from comfyrail.usecases.upload_sessions import Span

JSON_LIMIT = 48 << 20
"""Of a request that has a file as Base64 in it: it is in memory as a whole."""
FILE_FIELD = "file"
MOST_FILES = 50
FORM_OVERHEAD = 1 << 20

router = APIRouter(tags=["uploads"])

_upload_request = msgspec.json.Decoder(UploadRequest)
_session_request = msgspec.json.Decoder(SessionRequest)
_CONTENT_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18})")
_NUMBER = re.compile(r"\d{1,18}")

Name = Annotated[str | None, Query(max_length=2000)]
ExpiresIn = Annotated[float | None, Query()]
Same = Annotated[SameName, Query()]


@router.post(UPLOADS, status_code=201)
async def upload(
    request: Request, name: Name = None, expires_in: ExpiresIn = None, same_name: Same = "keep_both"
) -> Response:
    """Give a file: as a form with the field `file`, which may be there several times; as the body
    itself with its own Content-Type and `name` in the query; or as JSON that says where it is.
    """
    kind = content_type(request)
    if kind == FORM:
        received = await _from_form(request, _Options(name, expires_in, same_name))
    elif kind == "application/json" and name is None:
        received = [await _from_json(request)]
    else:
        received = [await _from_body(request, name, expires_in, same_name)]
    reply = UploadReply(assets=[asset_body(each.asset) for each in received])
    location = ASSET.format(asset_id=received[0].asset.id)
    return json_response(reply, 201, {"Location": location})


class _Options:
    """What the fields of a form before a file say of it."""

    def __init__(self, name: str | None, expires_in: float | None, same_name: SameName) -> None:
        self.name = name
        self.expires_in = expires_in
        self.same_name = same_name

    async def read(self, part: Part) -> None:
        text = (await part.text()).strip()
        match part.name:
            case "name":
                self.name = text
            case "expires_in":
                self.expires_in = _number(text)
            case "same_name":
                self.same_name = _same_name(text)
            case _:
                raise MalformedRequest(
                    f"The form has a field '{part.name[:80]}'; it may have file, name, expires_in "
                    "and same_name."
                )


async def _from_form(request: Request, options: _Options) -> list[Received]:
    """All files of the form, or none."""
    assets, principal = services_of(request).assets, principal_of(request)
    _check_announced(request, assets, FORM_OVERHEAD)
    received: list[Received] = []
    try:
        async for part in read_form(request):
            if not part.is_file:
                await options.read(part)
                continue
            if part.name != FILE_FIELD or len(received) >= MOST_FILES:
                raise MalformedRequest(
                    f"A form has its files in the field '{FILE_FIELD}', {MOST_FILES} at most."
                )
            received.append(await _from_part(assets, principal, part, options))
            options.name = None
    except ComfyrailError:
        await _take_back(assets, principal, received)
        raise
    if not received:
        raise MalformedRequest(f"The form has no file in the field '{FILE_FIELD}'.")
    return received


async def _from_part(
    assets: Assets, principal: Principal, part: Part, options: _Options
) -> Received:
    return await assets.receive(
        principal,
        part.chunks,
        name=options.name or part.filename or NO_NAME,
        content_type=part.content_type,
        expires_in=options.expires_in,
        same_name=options.same_name,
    )


async def _take_back(assets: Assets, principal: Principal, received: list[Received]) -> None:
    for each in received:
        if each.is_new:
            await assets.delete(principal, each.asset.id)


async def _from_body(
    request: Request, name: str | None, expires_in: float | None, same_name: SameName
) -> Received:
    assets = services_of(request).assets
    if not name:
        raise MalformedRequest(
            "Say what the file is called: POST /v1/uploads?name=photo.png. Or send it as a form "
            "(multipart/form-data) with the field 'file'."
        )
    _check_announced(request, assets, 0)
    return await assets.receive(
        principal_of(request),
        read_stream(request),
        name=name,
        content_type=content_type(request),
        expires_in=expires_in,
        same_name=same_name,
        announced=announced_size(request) or 1,
    )


async def _from_json(request: Request) -> Received:
    body = await read_json(request, _upload_request, JSON_LIMIT)
    assets, principal = services_of(request).assets, principal_of(request)
    given = [each for each in (body.url, body.base64, body.output, body.blake3) if each is not None]
    if len(given) != 1:
        raise MalformedRequest("Give one of url, base64, output or blake3.")
    if body.url is not None:
        return await assets.from_url(
            principal,
            body.url,
            name=body.name,
            expires_in=body.expires_in,
            same_name=body.same_name,
        )
    if body.output is not None:
        return await assets.from_output(
            principal,
            JobId(body.output.execution_id),
            OutputId(body.output.output_id),
            name=body.name,
            expires_in=body.expires_in,
            same_name=body.same_name,
        )
    if body.name is None:
        raise MalformedRequest("Say what the file is called: 'name'.")
    if body.blake3 is not None:
        return await assets.from_hash(
            principal,
            body.blake3,
            name=body.name,
            expires_in=body.expires_in,
            same_name=body.same_name,
        )
    return await assets.from_base64(
        principal,
        body.base64 or "",
        name=body.name,
        content_type=body.content_type,
        expires_in=body.expires_in,
        same_name=body.same_name,
    )


@router.post(SESSIONS, status_code=201)
async def begin_upload(request: Request) -> Response:
    """Announce a file that will come in parts of 8 MiB at most, in order."""
    body = await read_json(request, _session_request)
    session = await services_of(request).uploads.begin(
        principal_of(request),
        name=body.name,
        size=body.size,
        content_type=body.content_type,
        sha256=body.sha256,
        expires_in=body.expires_in,
        same_name=body.same_name,
    )
    location = SESSION.format(upload_id=session.record.id)
    return json_response(session_body(session), 201, {"Location": location})


@router.get(SESSION)
async def show_upload(request: Request, upload_id: str) -> Response:
    """How much of it is there."""
    session = await services_of(request).uploads.get(principal_of(request), upload_id)
    headers = {"Upload-Offset": str(session.record.offset), "Cache-Control": "no-store"}
    return json_response(session_body(session), 200, headers)


@router.put(SESSION)
async def send_part(request: Request, upload_id: str) -> Response:
    """The next part: `Content-Range: bytes 0-8388607/41943040`, or `Upload-Offset: 0`."""
    session = await services_of(request).uploads.write(
        principal_of(request), upload_id, _span(request), _part(request)
    )
    headers = {"Upload-Offset": str(session.record.offset)}
    return json_response(session_body(session), 201 if session.record.is_done else 200, headers)


@router.delete(SESSION, status_code=204)
async def cancel_upload(request: Request, upload_id: str) -> Response:
    await services_of(request).uploads.cancel(principal_of(request), upload_id)
    return Response(status_code=204)


async def _part(request: Request) -> AsyncIterator[bytes]:
    async for chunk in read_stream(request):
        yield chunk


def _span(request: Request) -> Span:
    """Which bytes the request has."""
    given = request.headers.get("content-range")
    offset = request.headers.get("upload-offset")
    if given is not None:
        found = _CONTENT_RANGE.fullmatch(given.strip())
        if found is not None:
            first, last, total = (int(number) for number in found.groups())
            length = last - first + 1
            if length > 0 and last < total and announced_size(request) in {None, length}:
                return Span(first, length, total)
    elif offset is not None and _NUMBER.fullmatch(offset):
        return Span(int(offset), announced_size(request))
    raise MalformedRequest(
        "Say which part it is, as long as the body: 'Content-Range: bytes 0-8388607/41943040', or "
        "'Upload-Offset: 0'.",
        code="INVALID_CONTENT_RANGE",
    )


def _check_announced(request: Request, assets: Assets, more: int) -> None:
    """Refuse at once what says itself that it is too large."""
    size, limit = announced_size(request), assets.rules.max_bytes
    if size is not None and limit and size > limit * (MOST_FILES if more else 1) + more:
        raise file_too_large("The file", limit)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise MalformedRequest("expires_in is a number of seconds.") from error


def _same_name(text: str) -> SameName:
    for known in get_args(SameName):
        if text == known:
            return known  # type: ignore[no-any-return] # one of the literals
    raise MalformedRequest(f"same_name is one of {', '.join(get_args(SameName))}.")
