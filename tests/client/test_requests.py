"""What the client sends, and what it makes of odd answers."""

import asyncio
from typing import Any

import pytest

from comfyrail.client import (
    ComfyrailClient,
    InvalidAddress,
    InvalidRequest,
    Output,
    RequestFailed,
    ServerUnreachable,
    UnexpectedReply,
)
from tests.cli.foreign_server import foreign_server, job_with_outputs
from tests.processes import Comfyrail


@pytest.mark.parametrize("job_id", ["../../../health", "..", ".", "a?b#c", "%2e%2e", "\udcff", "ü"])
async def test_id_reaches_no_other_route(running_server: Comfyrail, job_id: str) -> None:
    async with ComfyrailClient(running_server.url) as client:
        with pytest.raises(RequestFailed) as refused:
            await client.execution(job_id)
        assert refused.value.status == 404
        with pytest.raises(RequestFailed):
            await client.fleet.remove(job_id)


@pytest.mark.parametrize(
    "address",
    ["", "nowhere", "ftp://x", "http://", "http://x:99999", "http://[::1", "http://a..b", "x:1"],
)
async def test_address_that_is_none_is_refused(address: str) -> None:
    async with ComfyrailClient(address) as client:
        with pytest.raises(InvalidAddress, match="is no address of a server"):
            await client.fleet.workers()


@pytest.mark.parametrize("value", ["\ud800", object()])
async def test_request_that_is_no_json_is_refused(value: Any) -> None:
    async with ComfyrailClient("http://127.0.0.1:1") as client:
        with pytest.raises(InvalidRequest, match="cannot be written as JSON"):
            await client.execute({"1": value})


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (b"event: close\ndata", ServerUnreachable),
        (b"data: \xff\n\n", UnexpectedReply),
        (b"data: {}\n\n", UnexpectedReply),
        ({"no": "stream"}, UnexpectedReply),
    ],
)
async def test_stream_that_is_none_is_not_taken_up_for_ever(
    reply: Any, error: type[Exception]
) -> None:
    with foreign_server({"/v1/workflows/execution/x/events": reply}) as url:
        async with ComfyrailClient(url, patience=0.1) as client:
            with pytest.raises(error):
                await asyncio.wait_for(anext(client.events("x")), 10)


@pytest.mark.parametrize(
    ("field", "value"), [("size", 2), ("size", 4), ("url", "@127.0.0.1/output"), ("url", "")]
)
async def test_result_that_is_not_what_the_server_said_is_refused(
    field: str, value: int | str
) -> None:
    with foreign_server(job_with_outputs("a.png")) as url:
        async with ComfyrailClient(url) as client:
            job = await client.execution("01a1de80-896e-703e-9c95-bd478b0c2022")
            assert job.result is not None
            output = job.result.outputs[0]
            setattr(output, field, value)
            with pytest.raises(UnexpectedReply):
                await received(client, output)


async def received(client: ComfyrailClient, output: Output) -> bytes:
    return b"".join([chunk async for chunk in client.download(output)])
