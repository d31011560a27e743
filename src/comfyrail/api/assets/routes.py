"""API v1: assets."""

from pathlib import PurePosixPath
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from comfyrail.api.assets.contract import ASSET, ASSETS, CONTENT, AssetList, asset_body
from comfyrail.api.cursors import LONGEST_CURSOR, read_cursor, write_cursor
from comfyrail.api.files import file_response
from comfyrail.api.messages import json_response
from comfyrail.api.services import principal_of, services_of
from comfyrail.ids import AssetId
from comfyrail.store.media import MediaFile

router = APIRouter(tags=["assets"])


@router.get(ASSETS)
async def list_assets(
    request: Request,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    cursor: Annotated[str | None, Query(max_length=LONGEST_CURSOR)] = None,
    name: Annotated[str | None, Query(max_length=2000)] = None,
) -> Response:
    """Newest first; with `name` those of this name. Pass `next_cursor` back as `cursor` to go
    on.
    """
    after = read_cursor(cursor)
    page = await services_of(request).assets.list(
        principal_of(request), AssetId(after) if after else None, limit, name
    )
    return json_response(
        AssetList(
            assets=[asset_body(each) for each in page.assets],
            next_cursor=write_cursor(page.next_cursor),
        )
    )


@router.get(ASSET)
async def show_asset(request: Request, asset_id: str) -> Response:
    services = services_of(request)
    asset = await services.assets.get(principal_of(request), AssetId(asset_id))
    file = MediaFile(asset.blob_key, asset.content_type)
    known = await services.media.facts_of([file])
    return json_response(asset_body(asset, known.get(file)))


@router.delete(ASSET, status_code=204)
async def delete_asset(request: Request, asset_id: str) -> Response:
    """Not while a job that has not ended uses it."""
    await services_of(request).assets.delete(principal_of(request), AssetId(asset_id))
    return Response(status_code=204)


@router.get(CONTENT)
async def download_asset(request: Request, asset_id: str) -> Response:
    """The file itself, with ranges and ETag."""
    assets = services_of(request).assets
    asset = await assets.get(principal_of(request), AssetId(asset_id))
    return file_response(
        request,
        await assets.open(asset),
        filename=PurePosixPath(asset.name).name,
        content_type=asset.content_type,
        sha256=asset.sha256,
    )
