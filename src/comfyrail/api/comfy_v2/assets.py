"""Comfy API v2: assets. Uploaded files and outputs of jobs are one kind of thing there."""

import re
from collections.abc import AsyncIterator
from pathlib import PurePosixPath

import msgspec
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from comfyrail.access.permissions import Permission
from comfyrail.access.principal import Principal
from comfyrail.api.comfy_v2.contract import (
    ASSET,
    ASSETS,
    BY_HASH,
    CONTENT,
    FROM_HASH,
    HASH_PREFIX,
    ComfyFromHash,
    Links,
    asset_body,
    asset_of_output,
)
from comfyrail.api.files import file_response
from comfyrail.api.messages import json_response, read_json
from comfyrail.api.multipart import Part, read_form
from comfyrail.api.services import Services, principal_of, services_of
from comfyrail.errors import AssetNotFound, Conflict, MalformedRequest, NotFound, OutputNotFound
from comfyrail.ids import AssetId, OutputId
from comfyrail.jobs.job import Output
from comfyrail.store.assets import Asset
from comfyrail.usecases.asset_names import NO_NAME
from comfyrail.usecases.assets import Received

UNKNOWN_TYPE = "application/octet-stream"
"""What programs declare that do not know: no declaration."""
FILE = "file"
REQUIRED = ("content_type", "file_path")

router = APIRouter(tags=["Comfy API v2"])

_from_hash = msgspec.json.Decoder(ComfyFromHash)
_HASH = re.compile(r"(?:blake3:)?([0-9a-f]{64})")


@router.post(ASSETS)
async def upload_asset(request: Request) -> Response:
    """The fields first, then `file`: what is to be done with the bytes must be known when the first
    of them comes.
    """
    parts = read_form(request)
    fields, file = await _read_fields(parts)
    for name in REQUIRED:
        if not fields.get(name):
            raise MalformedRequest(f"{name} is required, and comes before the part 'file'.")
    declared = fields["content_type"]
    received = await services_of(request).assets.receive(
        principal_of(request),
        _only_file(file, parts),
        name=fields["file_path"],
        content_type=None if declared == UNKNOWN_TYPE else declared,
        expires_in=_seconds(fields.get("expires_in")),
        expected_blake3=_expected(fields.get("expected_hash")),
    )
    return _minted(request, received, 201 if received.is_new_blob else 200)


@router.post(FROM_HASH)
async def mint_asset(request: Request) -> Response:
    """A further asset over bytes that the caller has already; the same one where its newest of this
    name has them.
    """
    body = await read_json(request, _from_hash)
    assets, principal = services_of(request).assets, principal_of(request)
    content = _HASH.fullmatch(body.hash)
    if content is None:
        raise NotFound(
            f"You have no file with this content: a hash is written {HASH_PREFIX}<64 digits>.",
            code="BLOB_NOT_FOUND",
        )
    name = body.file_path or NO_NAME
    known = await assets.find_by_name(principal, name)
    if known is not None and known.blake3 == content[1] and body.expires_in is None:
        return _minted(request, Received(known, is_new_blob=False), 200)
    received = await assets.from_hash(principal, content[1], name=name, expires_in=body.expires_in)
    return _minted(request, received, 201)


@router.head(BY_HASH)
async def has_content(request: Request, content_hash: str) -> Response:
    content = _HASH.fullmatch(content_hash)
    is_known = content is not None and await services_of(request).assets.has_hash(
        principal_of(request), content[1]
    )
    return Response(status_code=200 if is_known else 404)


@router.get(ASSET)
async def show_asset(request: Request, asset_id: str) -> Response:
    found = await _find(services_of(request), principal_of(request), asset_id)
    links = Links.of(request)
    if isinstance(found, Asset):
        return json_response(asset_body(found, links))
    return json_response(asset_of_output(found, links))


@router.delete(ASSET)
async def delete_asset(request: Request, asset_id: str) -> Response:
    """An output belongs to its job and stays."""
    services, principal = services_of(request), principal_of(request)
    if not isinstance(await _find(services, principal, asset_id), Asset):
        raise Conflict("The asset is in use and cannot be deleted.", code="ASSET_IN_USE")
    await services.assets.delete(principal, AssetId(asset_id))
    return Response(status_code=204)


@router.head(CONTENT, include_in_schema=False)
@router.get(CONTENT)
async def send_content(request: Request, asset_id: str) -> Response:
    """The bytes, with ranges and ETag."""
    services, principal = services_of(request), principal_of(request)
    found = await _find(services, principal, asset_id)
    if isinstance(found, Asset):
        return file_response(
            request,
            await services.assets.open(found),
            filename=PurePosixPath(found.name).name,
            content_type=found.content_type,
            sha256=found.sha256,
        )
    return file_response(
        request,
        await services.jobs.open(found),
        filename=found.file.filename,
        content_type=found.file.content_type,
        sha256=found.file.sha256,
    )


async def _read_fields(parts: AsyncIterator[Part]) -> tuple[dict[str, str], Part]:
    fields: dict[str, str] = {}
    async for part in parts:
        if part.name == FILE:
            return fields, part
        fields[part.name] = await part.text()
    raise MalformedRequest(f"The form has no part '{FILE}' with the bytes.")


async def _only_file(file: Part, parts: AsyncIterator[Part]) -> AsyncIterator[bytes]:
    """Raises where a field comes behind it: nobody would heed that."""
    async for chunk in file.chunks:
        yield chunk
    if await anext(parts, None) is not None:
        raise MalformedRequest(f"Send all fields before the part '{FILE}'.")


async def _find(services: Services, principal: Principal, asset_id: str) -> Asset | Output:
    """Outputs only for those who may see jobs. Raises NotFound."""
    try:
        return await services.assets.get(principal, AssetId(asset_id))
    except AssetNotFound:
        if not principal.may(Permission.JOBS_READ):
            raise
    try:
        return await services.jobs.find_output(principal, OutputId(asset_id))
    except OutputNotFound as error:
        raise AssetNotFound(f"There is no asset {asset_id}.") from error


def _minted(request: Request, received: Received, status: int) -> Response:
    body = asset_body(received.asset, Links.of(request))
    body.created_new = received.is_new_blob
    return json_response(body, status)


def _expected(given: str | None) -> str | None:
    """Raises where it is not a hash that the bytes could have."""
    if given is None:
        return None
    content = _HASH.fullmatch(given)
    return given.removeprefix(HASH_PREFIX) if content is None else content[1]


def _seconds(given: str | None) -> int | None:
    if given is None:
        return None
    if not given.isascii() or not given.isdigit() or len(given) > 10:
        raise MalformedRequest("expires_in is a number of seconds.", code="INVALID_EXPIRY")
    return int(given)
