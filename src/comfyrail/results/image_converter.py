"""Converting a blob that is a picture [8.2]."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from comfyrail.errors import ConversionFailed
from comfyrail.jobs.output_config import OutputConfig
from comfyrail.results.blob_store import BlobReads
from comfyrail.results.media.processes import (
    MediaProcessEnded,
    MediaProcesses,
    MediaUnavailable,
)
from comfyrail.results.media.unusable import Unusable
from comfyrail.results.media_files import chunks_of


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

    @asynccontextmanager
    async def convert(
        self, key: str, content_type: str, wanted: OutputConfig
    ) -> AsyncIterator[ConvertedImage | None]:
        """The blob as it is wanted, for as long as the context is open; None where it is so
        already. Raises ConversionFailed, and what the blob store raises.
        """
        async with AsyncExitStack() as stack:
            path = await stack.enter_async_context(self._blobs.local(key))
            try:
                answer, folder = await stack.enter_async_context(
                    self._processes.convert(path, content_type, wanted.format, wanted.quality)
                )
            except (Unusable, MediaProcessEnded, MediaUnavailable) as error:
                raise ConversionFailed(str(error)) from error
            made = answer.file
            yield None if made is None else _image(made.file, made.content_type, folder)


def _image(name: str, content_type: str, folder: Path) -> ConvertedImage:
    file = PurePosixPath(name).name
    return ConvertedImage(folder / file, content_type, PurePosixPath(file).suffix)
