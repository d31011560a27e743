"""Calls to the server's library of workflows."""

import base64
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from datetime import datetime
from typing import Any, Final

import aiohttp
import msgspec

from comfyrail.client.calls import Ask, Call
from comfyrail.client.paths import quoted

EXPORT_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=5, sock_read=60)
DOWNLOAD_CHUNK = 1 << 18


class _Unchanged:
    """Stands for what is to stay as it is."""


UNCHANGED: Final = _Unchanged()


class DeclaredInput(msgspec.Struct):
    name: str
    targets: list[str]
    type: str
    label: str | None
    description: str | None
    default: Any
    minimum: float | None
    maximum: float | None
    choices: list[Any] | None
    required: bool


class WorkflowSummary(msgspec.Struct):
    name: str
    version: int
    description: str
    preview: str | None
    saved_at: datetime


class LibraryWorkflow(msgspec.Struct):
    name: str
    version: int
    versions: list[int]
    workflow: dict[str, Any]
    inputs: list[DeclaredInput]
    description: str
    preview: str | None
    saved_at: datetime


class SavedWorkflow(msgspec.Struct):
    """`version` is the newest one now; `added` are those that this call has made."""

    name: str
    version: int
    added: list[int]


class _WorkflowList(msgspec.Struct):
    workflows: list[WorkflowSummary]
    next_cursor: str | None


class _VersionList(msgspec.Struct):
    versions: list[WorkflowSummary]


class Library:
    """`ComfyrailClient.library`. A version that is not named is the newest."""

    def __init__(self, ask: Ask, call: Call) -> None:
        self._ask = ask
        self._call = call

    async def workflows(self, page_size: int = 100) -> AsyncIterator[WorkflowSummary]:
        """Every workflow by name, each in its newest version."""
        cursor: str | None = ""
        while cursor is not None:
            path = f"/v1/workflows?limit={page_size}&cursor={quoted(cursor)}"
            page = await self._ask("GET", path, _WorkflowList)
            for workflow in page.workflows:
                yield workflow
            cursor = page.next_cursor

    async def show(self, name: str, version: int | None = None) -> LibraryWorkflow:
        return await self._ask("GET", _path(name, "", version), LibraryWorkflow)

    async def versions(self, name: str) -> list[WorkflowSummary]:
        """Every version, the newest first."""
        return (await self._ask("GET", _path(name, "/versions"), _VersionList)).versions

    async def save(
        self,
        name: str,
        workflow: Mapping[str, Any],
        *,
        description: str | _Unchanged | None = UNCHANGED,
        inputs: Any = UNCHANGED,
        preview: bytes | _Unchanged | None = UNCHANGED,
    ) -> SavedWorkflow:
        """Save the next version; None takes away what the one before had."""
        body: dict[str, Any] = {"workflow": workflow}
        if not isinstance(description, _Unchanged):
            body["description"] = description
        if not isinstance(inputs, _Unchanged):
            body["inputs"] = inputs
        if not isinstance(preview, _Unchanged):
            body["preview"] = preview and base64.b64encode(preview).decode()
        return await self._ask("PUT", _path(name), SavedWorkflow, body)

    async def delete(self, name: str) -> None:
        """Delete a workflow with all its versions."""
        async with self._call("DELETE", _path(name)):
            return

    async def preview(self, name: str, version: int | None = None) -> bytes:
        """The picture, a PNG."""
        async with self._call("GET", _path(name, "/preview", version)) as response:
            return await response.read()

    async def save_preview(self, name: str, content: bytes) -> None:
        """Set the newest version's picture, a PNG."""
        headers = {"Content-Type": "image/png"}
        async with self._call("PUT", _path(name, "/preview"), content, headers=headers):
            return

    async def export_bundle(
        self, name: str, version: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        """A zip file with all versions, or with one."""
        path = _path(name, "/bundle", version)
        async with self._call("GET", path, timeout=EXPORT_TIMEOUT) as response:
            async for chunk in response.content.iter_chunked(DOWNLOAD_CHUNK):
                yield chunk

    async def import_bundle(
        self, content: bytes, *, name: str | None = None, replace: bool = False
    ) -> SavedWorkflow:
        """Keep a bundle's versions; `replace` adds them to a workflow that is there already."""
        wanted = "" if name is None else f"&name={quoted(name)}"
        path = f"/v1/workflows/import?replace={str(replace).lower()}{wanted}"
        headers = {"Content-Type": "application/zip"}
        return await self._ask("POST", path, SavedWorkflow, content, headers=headers)


def _path(name: str, below: str = "", version: int | None = None) -> str:
    query = "" if version is None else f"?version={version}"
    return f"/v1/workflows/{quoted(name)}{below}{query}"
