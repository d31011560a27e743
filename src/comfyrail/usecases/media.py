"""What files are, and smaller versions of them to look at [8.2]."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Protocol

from comfyrail.errors import NotFound
from comfyrail.jobs.job import Output
from comfyrail.results.blob_store import BlobReads, OpenBlob
from comfyrail.store.media import KnownMedia, MediaFile, MediaStore, has_facts

RETRY_SECONDS = 2.0
LONGEST_NAME = 40
_SUFFIXES = {"image/webp": ".webp", "application/json": ".json"}


@dataclass(frozen=True, slots=True)
class Variant:
    """Something smaller that was made of a file, and what it is called when it is kept."""

    name: str
    filename: str
    blob_key: str
    content_type: str
    sha256: str
    size: int


class Media(Protocol):
    async def variant(self, output: Output, name: str) -> Variant:
        """Raises NotFound: there is none, or none yet."""
        ...


class OutputMedia:
    """Asks nobody who is asking: what is given here belongs to the caller."""

    def __init__(self, store: MediaStore, blobs: BlobReads, *, is_on: bool = True) -> None:
        """`is_on` False: nobody looks at files."""
        self._store = store
        self._blobs = blobs
        self._is_on = is_on

    async def facts_of(self, files: Sequence[MediaFile]) -> Mapping[MediaFile, KnownMedia]:
        """What is known of files, as far as anything is or will be."""
        return await self._store.media_of(files) if files else {}

    async def variant(self, output: Output, name: str) -> Variant:
        file = output.file
        return await self.variant_of(file.blob_key, file.filename, file.content_type, name)

    async def variant_of(
        self, blob_key: str, filename: str, content_type: str, name: str
    ) -> Variant:
        """A variant of a file. Raises NotFound: VARIANT_NOT_READY with the time after which to ask
        again, MEDIA_FAILED where the file cannot be read, VARIANT_NOT_FOUND where none is made.
        """
        file = MediaFile(blob_key, content_type)
        known = (await self._store.media_of([file])).get(file)
        found = None if known is None else known.variants.get(name)
        if found is None:
            raise self._why_none(known, filename, content_type, name[:LONGEST_NAME])
        stem = PurePosixPath(filename).stem
        return Variant(
            name,
            f"{stem}_{name}{_SUFFIXES.get(found.content_type, '')}",
            found.blob_key,
            found.content_type,
            found.blob_key.rpartition("/")[2],
            found.size,
        )

    async def open(self, variant: Variant) -> OpenBlob:
        return await self._blobs.open(variant.blob_key)

    def _why_none(
        self, known: KnownMedia | None, filename: str, content_type: str, name: str
    ) -> NotFound:
        details = {"variant": name}
        if known is not None and known.facts is not None and known.facts.error is not None:
            return NotFound(
                f"Nothing smaller was made of '{filename}'. {known.facts.error}",
                code="MEDIA_FAILED",
                details={**details, "reason": known.facts.error},
            )
        if known is not None and known.state == "ready":
            has = ", ".join(sorted(known.variants)) or "none"
            return NotFound(
                f"'{filename}' has no variant {name!r}. It has: {has}.",
                code="VARIANT_NOT_FOUND",
                details=details,
            )
        if self._is_on and has_facts(content_type):
            return NotFound(
                f"'{filename}' is yet to be looked at. Ask again in a moment.",
                code="VARIANT_NOT_READY",
                details=details,
                retry_after=RETRY_SECONDS,
            )
        return NotFound(
            f"No variants are made of files like '{filename}'"
            + ("." if self._is_on else ": the server's setting media is off."),
            code="VARIANT_NOT_FOUND",
            details=details,
        )
