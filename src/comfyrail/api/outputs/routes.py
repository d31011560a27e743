"""API v1: outputs of all jobs: search, show, download, share, remove."""

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from fastapi import APIRouter, Depends, Query
from starlette.requests import Request
from starlette.responses import Response

from comfyrail.api.contract import instant_in, moment
from comfyrail.api.cursors import LONGEST_CURSOR, read_cursor, write_cursor
from comfyrail.api.executions import EXECUTION, Text, searchable
from comfyrail.api.files import FOREVER, ReadyStream, file_response
from comfyrail.api.messages import json_response, read_optional_json
from comfyrail.api.output_bodies import output_bodies
from comfyrail.api.outputs.contract import (
    CONTENT,
    FILE,
    LINK,
    OUTPUT,
    OUTPUTS,
    ZIP,
    FoundOutputBody,
    FoundOutputs,
    LinkBody,
    LinkRequest,
)
from comfyrail.api.services import Services, principal_of, services_of
from comfyrail.errors import MalformedRequest, OutputNotFound
from comfyrail.ids import BatchId, JobId, OutputId
from comfyrail.jobs.job import Output
from comfyrail.jobs.output_config import Tier
from comfyrail.results.zip_stream import zip_stream
from comfyrail.store.outputs import FoundOutput, OutputQuery
from comfyrail.usecases.outputs import MOST_IN_ZIP, OpenedFile

MOST_KINDS = 20
MOST_IDS = 200
LONGEST_ID = 64

Kinds = Annotated[
    list[str] | None,
    Query(
        max_length=MOST_KINDS,
        description="images, audio, text … or image, video, image/png …: repeated, or with commas.",
    ),
]
Ids = Annotated[
    list[str] | None,
    Query(
        max_length=MOST_IDS,
        description=f"Only these outputs, at most {MOST_IDS}: repeated, or with commas.",
    ),
]
TierName = Literal["immediate", "standard", "archive", "glacier"]
Word = Annotated[str | None, Query(max_length=200)]
Time = Annotated[str | None, Query(json_schema_extra={"format": "date-time"})]

router = APIRouter(tags=["outputs"])

_link_request = msgspec.json.Decoder(LinkRequest)


async def output_query(
    output_id: Ids = None,
    kind: Kinds = None,
    node_id: Word = None,
    workflow_id: Word = None,
    text: Text = None,
    created_from: Time = None,
    created_before: Time = None,
    execution_id: Word = None,
    batch_id: Word = None,
    tier: TierName | None = None,
    temporary: bool = False,
    gone: bool = False,
) -> OutputQuery:
    return OutputQuery(
        ids=_ids(output_id),
        kinds=_kinds(kind),
        node_id=node_id,
        workflow=workflow_id or None,
        text=searchable(text),
        created_from=instant_in(created_from, "created_from"),
        created_before=instant_in(created_before, "created_before"),
        job_id=JobId(execution_id) if execution_id else None,
        batch_id=BatchId(batch_id) if batch_id else None,
        tier=None if tier is None else Tier(tier),
        with_temporary=temporary,
        with_gone=gone,
    )


Wanted = Annotated[OutputQuery, Depends(output_query)]


@router.get(OUTPUTS)
async def search_outputs(
    request: Request,
    query: Wanted,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    cursor: Annotated[str | None, Query(max_length=LONGEST_CURSOR)] = None,
) -> Response:
    """Newest first. `text` looks in the prompts and other texts of the graphs that made them, and
    in file names. Pass `next_cursor` back as `cursor` to go on.
    """
    services, after = services_of(request), read_cursor(cursor)
    page = await services.outputs.search(
        principal_of(request), query, OutputId(after) if after else None, limit
    )
    return json_response(
        FoundOutputs(
            outputs=await _found_bodies(services, page.outputs),
            next_cursor=write_cursor(page.next_cursor),
        )
    )


@router.get(ZIP)
async def download_found(request: Request, query: Wanted) -> Response:
    """The newest that a search finds, at most 2,000, as one ZIP file. What is not there any more is
    named in MISSING.txt.
    """
    services, principal = services_of(request), principal_of(request)
    page = await services.outputs.search(principal, query, None, MOST_IN_ZIP)
    if not page.outputs:
        raise OutputNotFound("There are no outputs like that.")
    return _zip_response(services, [each.output for each in page.outputs], "outputs")


@router.get(EXECUTION + "/outputs.zip")
async def download_all(request: Request, execution_id: str) -> Response:
    """All outputs of an execution as one ZIP file."""
    services = services_of(request)
    outputs = await services.outputs.outputs_of(principal_of(request), JobId(execution_id))
    shown = [each for each in outputs if not each.file.is_temporary] or outputs
    return _zip_response(services, list(shown), execution_id)


@router.get(OUTPUT)
async def show_output(request: Request, output_id: str) -> Response:
    services = services_of(request)
    found = await services.outputs.find(principal_of(request), OutputId(output_id))
    bodies = await _found_bodies(services, [found])
    return json_response(bodies[0])


@router.delete(OUTPUT, status_code=204)
async def delete_output(request: Request, output_id: str) -> Response:
    """Remove its file. That it was there stays known: whoever asks is told that it is gone."""
    await services_of(request).outputs.delete(principal_of(request), OutputId(output_id))
    return Response(status_code=204)


@router.get(CONTENT)
async def download_output(request: Request, output_id: str) -> Response:
    """The file itself, with ranges and ETag."""
    opened = await services_of(request).outputs.open(principal_of(request), OutputId(output_id))
    return _file_of(request, opened)


@router.post(LINK)
async def make_link(request: Request, output_id: str) -> Response:
    """A link that anybody may follow until it expires."""
    _, body = await read_optional_json(request, _link_request, LinkRequest())
    services = services_of(request)
    link = await services.outputs.link(
        principal_of(request),
        OutputId(output_id),
        body.expires_in,
        variant=body.variant,
        is_download=body.download,
        is_direct=body.direct,
    )
    base = services.file_base or str(request.base_url)
    return json_response(
        LinkBody(
            url=link.url or f"{base.rstrip('/')}{link.path}",
            expires_at=moment(link.expires_at),
            direct=link.url is not None,
        )
    )


@router.get(FILE)
async def follow_link(request: Request, token: str, filename: str) -> Response:
    """What a link opens, without any other credentials."""
    del filename
    return _file_of(request, await services_of(request).outputs.follow(token))


def _file_of(request: Request, opened: OpenedFile) -> Response:
    return file_response(
        request,
        opened.blob,
        filename=opened.filename,
        content_type=opened.content_type,
        sha256=opened.sha256,
        is_download=opened.is_download,
        caching=_caching(opened),
    )


def _caching(opened: OpenedFile) -> str:
    if opened.cached_for is None:
        return FOREVER
    who = "public" if opened.is_shared else "private"
    return f"{who}, max-age={int(opened.cached_for)}"


def _zip_response(services: Services, outputs: list[Output], name: str) -> Response:
    return ReadyStream(
        zip_stream(services.outputs.members(outputs)),
        "application/zip",
        {
            "Content-Disposition": f'attachment; filename="{name}.zip"',
            "Cache-Control": "no-store",
        },
    )


async def _found_bodies(services: Services, found: Sequence[FoundOutput]) -> list[FoundOutputBody]:
    bodies = await output_bodies(services, [each.output for each in found])
    return [
        FoundOutputBody(
            execution_id=each.output.job_id,
            workflow_id=each.workflow_id,
            expires_at=None
            if each.output.gone_at is not None
            else moment(services.outputs.expires_at(each.output)),
            output=body,
        )
        for each, body in zip(found, bodies, strict=True)
    ]


def _kinds(given: list[str] | None) -> frozenset[str]:
    kinds = frozenset(word.strip().lower() for text in given or () for word in text.split(","))
    if len(kinds) > MOST_KINDS or any(not word or len(word) > 100 for word in kinds):
        raise MalformedRequest(
            f"kind is like image, video or image/png; at most {MOST_KINDS} of them."
        )
    return kinds


def _ids(given: list[str] | None) -> frozenset[OutputId]:
    ids = frozenset(OutputId(word.strip()) for text in given or () for word in text.split(","))
    if len(ids) > MOST_IDS or any(not word or len(word) > LONGEST_ID for word in ids):
        raise MalformedRequest(f"output_id is the id of an output; at most {MOST_IDS} of them.")
    return ids
