"""Calls about files that are given to the server."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

import aiohttp
import msgspec

from comfyrail.client.calls import Ask, Call
from comfyrail.client.errors import RequestFailed, ServerUnreachable
from comfyrail.client.paths import quoted

Told = Callable[[int, int], None]
"""Called with the bytes that are there, and all that there will be."""

WHOLE_BYTES = 8 << 20
"""A larger file is sent in parts, and taken up again where the line broke."""
PART_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=5, sock_read=300)
RETRY_SECONDS = (0.2, 0.5, 1.0, 2.0, 5.0)
PATIENCE_SECONDS = 60.0
OFFSET_CHANGED = 409
WORTH_A_RETRY = frozenset({OFFSET_CHANGED, 503})


class Asset(msgspec.Struct):
    """A file on the server. `input_name` goes into a workflow where exactly these bytes are meant;
    `name` means the newest file of that name.
    """

    asset_id: str
    name: str
    input_name: str
    content_type: str
    size: int
    sha256: str
    blake3: str
    created_at: datetime
    expires_at: datetime | None
    url: str


class _AssetList(msgspec.Struct):
    assets: list[Asset]
    next_cursor: str | None = None


class _Session(msgspec.Struct):
    upload_id: str
    offset: int
    size: int
    chunk_size: int
    asset: Asset | None


class Uploads:
    """`ComfyrailClient.uploads`."""

    def __init__(self, ask: Ask, call: Call) -> None:
        self._ask = ask
        self._call = call

    async def add(
        self,
        file: Path,
        name: str | None = None,
        *,
        expires_in: float | None = None,
        told: Told | None = None,
    ) -> Asset:
        """Give a file to the server. A large one goes in parts: it goes on after a break."""
        called = name or file.name
        with file.open("rb") as opened:
            size = os.fstat(opened.fileno()).st_size
            if size > WHOLE_BYTES:
                return await self._add_in_parts(opened, size, called, expires_in, told)
            content = await asyncio.to_thread(opened.read)
        return await self.add_bytes(content, called, expires_in=expires_in)

    async def add_bytes(
        self, content: bytes, name: str, *, expires_in: float | None = None
    ) -> Asset:
        life = "" if expires_in is None else f"&expires_in={expires_in}"
        path = f"/v1/uploads?name={quoted(name)}{life}"
        headers = {"Content-Type": "application/octet-stream"}
        return (await self._ask("POST", path, _AssetList, content, headers=headers)).assets[0]

    async def all(self, page_size: int = 100, name: str | None = None) -> AsyncIterator[Asset]:
        """Every file, or every one of this name, newest first."""
        named = "" if name is None else f"&name={quoted(name)}"
        cursor: str | None = ""
        while cursor is not None:
            after = f"&cursor={quoted(cursor)}" if cursor else ""
            page = await self._ask("GET", f"/v1/assets?limit={page_size}{named}{after}", _AssetList)
            for asset in page.assets:
                yield asset
            cursor = page.next_cursor

    async def show(self, asset_id: str) -> Asset:
        return await self._ask("GET", f"/v1/assets/{quoted(asset_id)}", Asset)

    async def delete(self, asset_id: str) -> None:
        async with self._call("DELETE", f"/v1/assets/{quoted(asset_id)}"):
            return

    async def _add_in_parts(
        self, file: BinaryIO, size: int, name: str, expires_in: float | None, told: Told | None
    ) -> Asset:
        body = {"name": name, "size": size, "expires_in": expires_in}
        session = await self._ask("POST", "/v1/uploads/sessions", _Session, body)
        path = f"/v1/uploads/sessions/{quoted(session.upload_id)}"
        now = asyncio.get_running_loop().time
        broken_at: float | None = None
        failures = 0
        while session.asset is None:
            if told is not None:
                told(session.offset, size)
            try:
                if failures:
                    session = await self._ask("GET", path, _Session)
                    if session.asset is not None:
                        break
                session = await self._send(file, session, path)
                broken_at, failures = None, 0
            except (ServerUnreachable, RequestFailed) as error:
                if isinstance(error, RequestFailed) and error.status not in WORTH_A_RETRY:
                    raise
                broken_at = now() if broken_at is None else broken_at
                if now() - broken_at >= PATIENCE_SECONDS:
                    raise
                await asyncio.sleep(RETRY_SECONDS[min(failures, len(RETRY_SECONDS) - 1)])
                failures += 1
        if told is not None:
            told(size, size)
        return session.asset

    async def _send(self, file: BinaryIO, session: _Session, path: str) -> _Session:
        file.seek(session.offset)
        content = await asyncio.to_thread(file.read, session.chunk_size)
        headers = {
            "Content-Type": "application/octet-stream",
            "Upload-Offset": str(session.offset),
        }
        async with self._call(
            "PUT", path, content, headers=headers, timeout=PART_TIMEOUT
        ) as response:
            return msgspec.json.decode(await response.read(), type=_Session)
