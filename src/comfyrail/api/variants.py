"""Smaller versions of files: thumbnails, posters, waveforms."""

from pathlib import PurePosixPath
from typing import Annotated

from fastapi import APIRouter, Path
from starlette.requests import Request
from starlette.responses import Response

from comfyrail.access.permissions import Permission
from comfyrail.api.files import FOREVER, ranged_response
from comfyrail.api.operations import Operation, Operations
from comfyrail.api.services import principal_of, services_of
from comfyrail.ids import AssetId, JobId, OutputId
from comfyrail.results.dispositions import content_disposition
from comfyrail.usecases.gone import check_there
from comfyrail.usecases.media import LONGEST_NAME, Variant

OF_OUTPUT = "/v1/workflows/execution/{execution_id}/outputs/{output_id}/variants/{variant}"
OF_ASSET = "/v1/assets/{asset_id}/variants/{variant}"

VariantName = Annotated[str, Path(max_length=LONGEST_NAME)]

router = APIRouter(tags=["outputs"])


@router.get(OF_OUTPUT)
async def download_output_variant(
    request: Request, execution_id: str, output_id: str, variant: VariantName
) -> Response:
    """With ranges and ETag: thumb_256, thumb_512, thumb_1024, poster, waveform, peaks, embedded."""
    services = services_of(request)
    output = check_there(
        await services.jobs.output(principal_of(request), JobId(execution_id), OutputId(output_id))
    )
    return await _send(request, await services.media.variant(output, variant))


@router.get(OF_ASSET)
async def download_asset_variant(request: Request, asset_id: str, variant: VariantName) -> Response:
    """The same for an asset."""
    services = services_of(request)
    asset = await services.assets.get(principal_of(request), AssetId(asset_id))
    found = await services.media.variant_of(
        asset.blob_key, PurePosixPath(asset.name).name, asset.content_type, variant
    )
    return await _send(request, found)


async def _send(request: Request, variant: Variant) -> Response:
    """All of them were made here: a browser may show them."""
    return ranged_response(
        request,
        await services_of(request).media.open(variant),
        tag=f'"{variant.sha256}"',
        media_type=variant.content_type,
        headers={
            "Cache-Control": FOREVER,
            "Content-Disposition": content_disposition(variant.filename, is_inline=True),
        },
    )


OPERATIONS: Operations = {
    ("get", OF_OUTPUT): Operation(
        Permission.JOBS_READ,
        "A smaller version of an output",
        "*/*",
        errors=(404, 410, 416),
        headers=("Range", "If-None-Match"),
        other_statuses=(206, 304),
    ),
    ("get", OF_ASSET): Operation(
        Permission.ASSETS_READ,
        "A smaller version of an asset",
        "*/*",
        errors=(404, 416),
        headers=("Range", "If-None-Match"),
        other_statuses=(206, 304),
    ),
}
