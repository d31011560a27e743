"""Outputs of all of one's jobs: find, open, share, remove [8.1-8.4]."""

import asyncio
import base64
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from comfyrail.access.principal import Principal
from comfyrail.clock import Clock, Instant, after
from comfyrail.errors import Gone, MalformedRequest, OutputNotFound
from comfyrail.ids import JobId, OutputId
from comfyrail.jobs.job import Output
from comfyrail.jobs.life_cycle import GoneReason, end_of_tier
from comfyrail.jobs.output_config import Tier
from comfyrail.results.blob_store import BlobReads, OpenBlob
from comfyrail.results.links import LONGEST_LINK_SECONDS, FileLink, LinkSigner, link_path
from comfyrail.results.zip_stream import Member, TextBlob
from comfyrail.store.interface import Store
from comfyrail.store.media import KnownMedia, MediaFile, media_file
from comfyrail.store.outputs import FoundOutput, OutputPage, OutputQuery, OutputStore
from comfyrail.usecases.gone import WHY_GONE, check_there
from comfyrail.usecases.media import OutputMedia, Variant

SHORTEST_LINK_SECONDS = 1.0
MOST_IN_ZIP = 2000
INLINE_BYTES = 8 << 20
"""Of all outputs of a reply together."""
LONGEST_CACHED = 3600.0
"""Seconds for which a link's file is kept by those who have followed it."""
MISSING = "MISSING.txt"


class OutputBlobs(BlobReads, Protocol):
    def doubt(self, keys: Collection[str]) -> None: ...


class OutputsOfTenants(Store, OutputStore, Protocol):
    """The side of the store that is needed here."""


@dataclass(frozen=True, slots=True)
class Link:
    """`path`: of this server; None where `url` is one of the storage itself."""

    expires_at: Instant
    path: str | None = None
    url: str | None = None


@dataclass(frozen=True, slots=True)
class OpenedFile:
    """Bytes to be sent, and what they are."""

    blob: OpenBlob
    filename: str
    content_type: str
    sha256: str
    is_download: bool = False
    cached_for: float | None = None
    """Seconds; None: for ever."""
    is_shared: bool = False
    """Caches that many use may keep it."""


class Outputs:
    """Every method sees the principal's own outputs only; others do not exist for it."""

    def __init__(
        self,
        store: OutputsOfTenants,
        blobs: OutputBlobs,
        media: OutputMedia,
        signer: LinkSigner,
        clock: Clock,
        retention: Tier,
        *,
        has_cdn: bool = False,
    ) -> None:
        """`retention`: the last tier of outputs whose jobs do not say; `has_cdn`: links lead to
        caches that many use.
        """
        self._store = store
        self._blobs = blobs
        self._media = media
        self._signer = signer
        self._clock = clock
        self._retention = retention
        self._has_cdn = has_cdn

    async def search(
        self, principal: Principal, query: OutputQuery, after: OutputId | None, limit: int
    ) -> OutputPage:
        return await self._store.search_outputs(principal.tenant, query, after, limit)

    async def get(self, principal: Principal, output_id: OutputId) -> Output:
        """Also one that is gone. Raises OutputNotFound."""
        return await self._store.find_output(principal.tenant, output_id)

    async def find(self, principal: Principal, output_id: OutputId) -> FoundOutput:
        """The same, with the workflow that made it."""
        output = await self.get(principal, output_id)
        job = await self._store.get_job(principal.tenant, output.job_id)
        return FoundOutput(output, job.workflow_id)

    async def media_of(self, outputs: Sequence[Output]) -> Mapping[MediaFile, KnownMedia]:
        """What is known of their files."""
        return await self._media.facts_of([media_file(each) for each in outputs])

    async def open(self, principal: Principal, output_id: OutputId) -> OpenedFile:
        """Raises OutputNotFound, or Gone for one that was there once."""
        return await self._opened(await self.get(principal, output_id))

    def expires_at(self, output: Output) -> Instant:
        """When an output will be gone, or would have been."""
        return end_of_tier(output.retention or self._retention, output.created_at)

    async def delete(self, principal: Principal, output_id: OutputId) -> None:
        """From now on it is gone. One that is gone already stays so."""
        output = await self.get(principal, output_id)
        await self._store.end_outputs([output], GoneReason.DELETED)
        self._blobs.doubt([output.file.blob_key])

    async def link(
        self,
        principal: Principal,
        output_id: OutputId,
        seconds: float,
        *,
        variant: str | None = None,
        is_download: bool = False,
        is_direct: bool = False,
    ) -> Link:
        """A link that anybody may follow for so long, never longer than the output is there.

        `is_direct`: of the storage itself where it can give one. Raises OutputNotFound, Gone, or
        NotFound for a variant that there is not.
        """
        if not SHORTEST_LINK_SECONDS <= seconds <= LONGEST_LINK_SECONDS:
            raise MalformedRequest(
                f"expires_in is in seconds, from {SHORTEST_LINK_SECONDS:g} to "
                f"{LONGEST_LINK_SECONDS:g}.",
                code="INVALID_LINK_TIME",
            )
        output = check_there(await self.get(principal, output_id))
        made = None if variant is None else await self._variant(output, variant)
        now = self._clock.now()
        expires_at = min(after(now, seconds), self.expires_at(output))
        filename = output.file.filename if made is None else made.filename
        if is_direct:
            url = await self._blobs.signed_url(
                output.file.blob_key if made is None else made.blob_key,
                max(1.0, (expires_at - now) / 1000),
                filename=filename,
                content_type=output.file.content_type if made is None else made.content_type,
                is_inline=not is_download,
            )
            if url is not None:
                return Link(expires_at, url=url)
        claims = FileLink(
            principal.tenant, output.job_id, output.file.id, expires_at, variant, is_download
        )
        return Link(expires_at, path=link_path(self._signer.sign(claims), filename))

    async def follow(self, token: str) -> OpenedFile:
        """What a link opens, for whoever has it. Raises Forbidden, OutputNotFound or Gone."""
        link = self._signer.read(token, self._clock.now())
        output = await self._store.get_output(link.tenant, link.job_id, link.output_id)
        opened = await self._opened(output, link.variant, is_download=link.is_download)
        left = (link.expires_at - self._clock.now()) / 1000
        return replace(
            opened, cached_for=max(0.0, min(left, LONGEST_CACHED)), is_shared=self._has_cdn
        )

    async def members(self, outputs: Sequence[Output]) -> AsyncIterator[Member]:
        """Those that are there, for a ZIP file; each is opened when its turn comes. The last one
        names those that are not. Raises Gone where none of them is.
        """
        missing: list[str] = []
        for output in outputs:
            blob = await self._open_unless_lost(output)
            if blob is None:
                missing.append(_why_missing(output))
            else:
                yield Member(output.file.filename, output.created_at, blob)
        if outputs and len(missing) == len(outputs):
            raise Gone("None of these outputs is there any more.", code="OUTPUT_GONE")
        if missing:
            yield Member(MISSING, self._clock.now(), TextBlob("".join(missing).encode()))

    async def _open_unless_lost(self, output: Output) -> OpenBlob | None:
        if output.gone_at is not None:
            return None
        try:
            return await self._blobs.open(output.file.blob_key)
        except OutputNotFound:
            return None

    async def inline(self, outputs: Sequence[Output]) -> Mapping[OutputId, str]:
        """The bytes of outputs as base64, as many as there is room for in a reply; the first ones
        first. Those that are not there any more are left out.
        """
        room = INLINE_BYTES
        found: dict[OutputId, str] = {}
        for output in outputs:
            if output.file.size > room:
                continue
            blob = await self._open_unless_lost(output)
            if blob is None:
                continue
            room -= output.file.size
            content = b"".join([chunk async for chunk in blob.chunks()])
            found[output.file.id] = (await asyncio.to_thread(base64.b64encode, content)).decode()
        return found

    async def outputs_of(self, principal: Principal, job_id: JobId) -> Sequence[Output]:
        """Raises JobNotFound."""
        return await self._store.list_outputs(principal.tenant, job_id)

    async def _opened(
        self, output: Output, variant: str | None = None, *, is_download: bool = False
    ) -> OpenedFile:
        file = check_there(output).file
        if variant is not None:
            made = await self._variant(output, variant)
            blob = await self._blobs.open(made.blob_key)
            return OpenedFile(blob, made.filename, made.content_type, made.sha256, is_download)
        blob = await self._blobs.open(file.blob_key)
        return OpenedFile(blob, file.filename, file.content_type, file.sha256, is_download)

    async def _variant(self, output: Output, name: str) -> Variant:
        return await self._media.variant(output, name)


def _why_missing(output: Output) -> str:
    reason = "its file is lost" if output.gone_reason is None else WHY_GONE[output.gone_reason]
    return f"{output.file.filename} ({output.file.id}): {reason}\n"
