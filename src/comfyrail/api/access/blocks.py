"""Blocked addresses: for those who run the server."""

import msgspec
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from comfyrail.api.access.acts import note_act
from comfyrail.api.access.contract import BlockRequest, block_body, block_list
from comfyrail.api.access.services import SMALL_BODY, access_of
from comfyrail.api.contract import instant_of
from comfyrail.api.messages import json_response, read_json
from comfyrail.api.services import principal_of

BLOCKS = "/v1/blocks"
BLOCK = "/v1/blocks/{block_id}"

router = APIRouter(tags=["access"])

_block_request = msgspec.json.Decoder(BlockRequest)


@router.get(BLOCKS)
async def list_blocks(request: Request) -> Response:
    """Those that count now, the gate's own too."""
    return json_response(block_list(await access_of(request).address_blocks.list()))


@router.post(BLOCKS, status_code=201)
async def add_block(request: Request) -> Response:
    """Answer an address or a network with 403 from now on. One that is blocked already gets the new
    reason and time.
    """
    body = await read_json(request, _block_request, SMALL_BODY)
    block = await access_of(request).address_blocks.add(
        principal_of(request),
        body.network,
        body.reason,
        instant_of(body.expires_at, "expires_at"),
    )
    await note_act(request, "block.add", block.network, block_id=block.id, reason=block.reason)
    return json_response(block_body(block), 201, {"Location": BLOCK.format(block_id=block.id)})


@router.delete(BLOCK, status_code=204)
async def remove_block(request: Request, block_id: str) -> Response:
    block = await access_of(request).address_blocks.remove(block_id)
    await note_act(request, "block.remove", block.network, block_id=block.id)
    return Response(status_code=204)
