"""Calls about outputs of all one's executions."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from datetime import datetime
from typing import Any

import aiohttp
import msgspec

from comfyrail.client.calls import Ask, Call
from comfyrail.client.paths import query, quoted

CHUNK = 1 << 18
ZIP_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=5, sock_read=300)


class Output(msgspec.Struct):
    """A file that an execution made. `media`: what is known of it, such as its width and height;
    `variants`: where smaller versions of it are, by name.
    """

    output_id: str
    node_id: str
    kind: str
    filename: str
    temporary: bool
    partial: bool
    content_type: str
    size: int
    sha256: str
    url: str
    tier: str = "immediate"
    gone_at: datetime | None = None
    gone_reason: str | None = None
    media: dict[str, Any] | None = None
    variants: dict[str, str] = {}


class FoundOutput(msgspec.Struct):
    """`expires_at`: when it will be gone; None where it is already."""

    execution_id: str
    workflow_id: str | None
    expires_at: datetime | None
    output: Output


class Link(msgspec.Struct):
    url: str
    expires_at: datetime
    direct: bool


class _Found(msgspec.Struct):
    outputs: list[FoundOutput]
    next_cursor: str | None


class Outputs:
    """`ComfyrailClient.all_outputs`."""

    def __init__(self, ask: Ask, call: Call) -> None:
        self._ask = ask
        self._call = call

    async def search(
        self, page_size: int = 100, **filters: str | Sequence[str] | None
    ) -> AsyncIterator[FoundOutput]:
        """Newest first. Filters: text, kind, node_id, workflow_id, created_from, created_before,
        execution_id, batch_id, output_id, tier, temporary, gone.
        """
        cursor: str | None = None
        while True:
            words = query(**filters, limit=str(page_size), cursor=cursor)
            page = await self._ask("GET", f"/v1/outputs{words}", _Found)
            for found in page.outputs:
                yield found
            cursor = page.next_cursor
            if cursor is None:
                return

    async def show(self, output_id: str) -> FoundOutput:
        return await self._ask("GET", f"/v1/outputs/{quoted(output_id)}", FoundOutput)

    async def delete(self, output_id: str) -> None:
        async with self._call("DELETE", f"/v1/outputs/{quoted(output_id)}"):
            return

    async def link(
        self,
        output_id: str,
        expires_in: float = 3600.0,
        *,
        variant: str | None = None,
        download: bool = False,
        direct: bool = False,
    ) -> Link:
        """A URL that anybody may follow for so many seconds."""
        body = {
            "expires_in": expires_in,
            "variant": variant,
            "download": download,
            "direct": direct,
        }
        return await self._ask("POST", f"/v1/outputs/{quoted(output_id)}/link", Link, body)

    async def zip(
        self, execution_id: str | None = None, **filters: str | Sequence[str] | None
    ) -> AsyncGenerator[bytes]:
        """A ZIP file of all outputs of an execution, or of what a search finds; close it where you
        do not read it to its end.
        """
        path = f"/v1/outputs.zip{query(**filters)}"
        if execution_id is not None:
            path = f"/v1/workflows/execution/{quoted(execution_id)}/outputs.zip"
        async with self._call("GET", path, timeout=ZIP_TIMEOUT) as response:
            async for chunk in response.content.iter_chunked(CHUNK):
                yield chunk
