"""Making the pictures of a job into what its submission wants, before the job ends [8.2]."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Protocol

from comfyrail.errors import ConversionFailed
from comfyrail.fleet.faults import output_not_converted
from comfyrail.fleet.outputs import NAME_LIMIT, Fetched, Saves
from comfyrail.jobs.faults import Fault
from comfyrail.jobs.job import NewOutput
from comfyrail.jobs.output_config import AS_IT_IS, OutputConfig

PICTURES = "images"
"""What nodes call the pictures among their outputs, and films too."""
MOST_SECONDS = 600.0
"""For all images of a job together: it waits for them."""
NEVER_CONVERTED = frozenset({"image/svg+xml"})


class ConvertedFile(Protocol):
    """`suffix` of its name, with the dot."""

    @property
    def content_type(self) -> str: ...
    @property
    def suffix(self) -> str: ...

    def chunks(self) -> AsyncIterator[bytes]: ...


class Converter(Protocol):
    def convert(
        self, key: str, content_type: str, wanted: OutputConfig
    ) -> AbstractAsyncContextManager[ConvertedFile | None]:
        """The picture of a blob as it is wanted, for as long as the context is open; None where it
        is so already. Raises ConversionFailed, and StoreUnavailable.
        """
        ...


@dataclass(frozen=True, slots=True)
class Conversion:
    """What becomes of the pictures of one job; nothing where nobody can do it."""

    wanted: OutputConfig = field(default=AS_IT_IS)
    converter: Converter | None = None

    async def apply(self, fetched: Fetched, sink: Saves) -> Fetched:
        """The outputs with the pictures converted. One that cannot be stays as it is, and a
        warning says why. Raises StoreUnavailable.
        """
        if self.converter is None or (self.wanted.format is None and self.wanted.quality is None):
            return fetched
        outputs: list[NewOutput] = []
        warnings: list[Fault] = []
        until = asyncio.get_running_loop().time() + MOST_SECONDS
        for output in fetched.outputs:
            try:
                outputs.append(await self._converted(self.converter, output, sink, until))
            except ConversionFailed as error:
                outputs.append(output)
                warnings.append(
                    output_not_converted(output.node_id, output.filename, error.message)
                )
        return replace(fetched, outputs=tuple(outputs), warnings=(*fetched.warnings, *warnings))

    async def _converted(
        self, converter: Converter, output: NewOutput, sink: Saves, until: float
    ) -> NewOutput:
        if not _is_picture(output):
            return output
        if asyncio.get_running_loop().time() > until:
            raise ConversionFailed("The images before it took too long.")
        wanted = self.wanted
        async with converter.convert(output.blob_key, output.content_type, wanted) as made:
            if made is None:
                return output
            blob = await sink.save(made.chunks())
            return replace(
                output,
                filename=_renamed(output.filename, made.suffix),
                content_type=made.content_type,
                size=blob.size,
                sha256=blob.sha256,
                blob_key=blob.key,
                blake3=blob.blake3,
            )


def _is_picture(output: NewOutput) -> bool:
    content_type = output.content_type
    is_image = content_type.startswith("image/") and content_type not in NEVER_CONVERTED
    return output.kind == PICTURES and is_image


def fetched_with(fetched: Fetched, others: Sequence[NewOutput]) -> Fetched:
    """With outputs that came another way."""
    return replace(fetched, outputs=(*fetched.outputs, *others))


def _renamed(filename: str, suffix: str) -> str:
    """`a.png` → `a.webp`."""
    stem = PurePosixPath(filename).stem
    return stem[: NAME_LIMIT - len(suffix)] + suffix
