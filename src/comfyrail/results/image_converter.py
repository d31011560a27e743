"""Converting a blob that is a picture [8.2]."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from comfyrail.errors import ConversionFailed
from comfyrail.jobs.output_config import OutputConfig
from comfyrail.results.blob_store import BlobReads
from comfyrail.results.fair_room import FairRoom, RoomIsFull
from comfyrail.results.media.messages import Converted
from comfyrail.results.media.processes import (
    MediaProcessEnded,
    MediaProcesses,
    MediaUnavailable,
)
from comfyrail.results.media.unusable import Unusable
from comfyrail.results.media_files import chunks_of

MOST_WAITING = 1000
"""Pictures of one tenant that wait to be converted: one for each of its jobs and processes."""
TRIES = 2
"""A process may have ended by itself: the second try is in a fresh one."""


@dataclass(frozen=True, slots=True)
class ConvertedImage:
    """`suffix` of its name, with the dot."""

    path: Path
    content_type: str
    suffix: str

    def chunks(self) -> AsyncIterator[bytes]:
        return chunks_of(self.path)


class ImageConverter:
    def __init__(self, processes: MediaProcesses, blobs: BlobReads) -> None:
        self._processes = processes
        self._blobs = blobs
        self._room = FairRoom(processes.most, MOST_WAITING)

    @property
    def places(self) -> int:
        """So many pictures are converted at once."""
        return self._room.places

    @asynccontextmanager
    async def place(self, owner: str) -> AsyncIterator[None]:
        """The right to convert a picture; owners take turns. Raises ConversionFailed where too
        many of the same owner wait.
        """
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(self._room.place(owner))
            except RoomIsFull as error:
                raise ConversionFailed(
                    f"The server was busy converting: {MOST_WAITING} pictures of this tenant wait "
                    "already."
                ) from error
            yield

    @asynccontextmanager
    async def convert(
        self, key: str, content_type: str, wanted: OutputConfig
    ) -> AsyncIterator[ConvertedImage | None]:
        """The blob as it is wanted, for as long as the context is open; None where it is so
        already. Raises ConversionFailed, and what the blob store raises.
        """
        async with AsyncExitStack() as stack:
            path = await stack.enter_async_context(self._blobs.local(key))
            answer, folder = await self._convert(stack, path, content_type, wanted)
            made = answer.file
            yield None if made is None else _image(made.file, made.content_type, folder)

    async def _convert(
        self, stack: AsyncExitStack, path: Path, content_type: str, wanted: OutputConfig
    ) -> tuple[Converted, Path]:
        for remaining in reversed(range(TRIES)):
            try:
                return await stack.enter_async_context(
                    self._processes.convert(path, content_type, wanted.format, wanted.quality)
                )
            except MediaProcessEnded as error:
                if not remaining:
                    raise ConversionFailed(
                        f"The process that converted it ended, {TRIES} times. {error}"
                    ) from error
            except (Unusable, MediaUnavailable) as error:
                raise ConversionFailed(str(error)) from error
        raise AssertionError("the last try returns or raises")


def _image(name: str, content_type: str, folder: Path) -> ConvertedImage:
    file = PurePosixPath(name).name
    return ConvertedImage(folder / file, content_type, PurePosixPath(file).suffix)
