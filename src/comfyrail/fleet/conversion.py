"""Making the pictures of a job into what its submission wants, before the job ends [8.2]."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Protocol

from comfyrail.errors import ConversionFailed
from comfyrail.fleet.faults import output_not_converted
from comfyrail.fleet.outputs import NAME_LIMIT, Fetched, SavedBlob, Saves
from comfyrail.jobs.faults import Fault
from comfyrail.jobs.job import NewOutput
from comfyrail.jobs.output_config import AS_IT_IS, OutputConfig

PICTURES = "images"
"""What nodes call the pictures among their outputs, and films too."""
MOST_SECONDS = 600.0
"""Of work for all pictures of a job together: it waits for them."""
MOST_WAITING_SECONDS = 3600.0
"""That a job waits for others' pictures to be converted before its own."""
NEVER_CONVERTED = frozenset({"image/svg+xml"})


class ConvertedFile(Protocol):
    """`suffix` of its name, with the dot."""

    @property
    def content_type(self) -> str: ...
    @property
    def suffix(self) -> str: ...

    def chunks(self) -> AsyncIterator[bytes]: ...


class Converter(Protocol):
    @property
    def places(self) -> int:
        """So many pictures are converted at once."""
        ...

    def place(self, owner: str) -> AbstractAsyncContextManager[None]:
        """The right to convert a picture, for as long as the context is open. Those who wait for
        it take turns by owner. Raises ConversionFailed.
        """
        ...

    def convert(
        self, key: str, content_type: str, wanted: OutputConfig
    ) -> AbstractAsyncContextManager[ConvertedFile | None]:
        """The picture of a blob as it is wanted, for as long as the context is open; None where it
        is so already. Raises ConversionFailed, and StoreUnavailable.
        """
        ...


@dataclass(frozen=True, slots=True)
class _Picture:
    """What is converted: the same for all outputs that have these bytes."""

    blob_key: str
    content_type: str


@dataclass(frozen=True, slots=True)
class _Made:
    blob: SavedBlob
    content_type: str
    suffix: str


@dataclass(frozen=True, slots=True)
class Conversion:
    """What becomes of the pictures of one job of `owner`; nothing where nobody can do it."""

    wanted: OutputConfig = field(default=AS_IT_IS)
    converter: Converter | None = None
    owner: str = ""

    def concerns(self, fetched: Fetched) -> bool:
        """Whether there is anything to convert."""
        is_wanted = self.wanted.format is not None or self.wanted.quality is not None
        return is_wanted and self.converter is not None and any(map(_is_picture, fetched.outputs))

    def given_up(self, fetched: Fetched, why: str) -> Fetched:
        """The outputs as they are, with a warning for each picture."""
        warnings = [
            output_not_converted(each.node_id, each.filename, why)
            for each in fetched.outputs
            if _is_picture(each)
        ]
        return replace(fetched, warnings=(*fetched.warnings, *warnings))

    async def apply(self, fetched: Fetched, sink: Saves) -> Fetched:
        """The outputs with the pictures converted. One that cannot be stays as it is, and a
        warning says why. Raises StoreUnavailable.
        """
        if self.converter is None or not self.concerns(fetched):
            return fetched
        work = _Work(self.converter, self.wanted, self.owner, sink)
        await work.convert_all(_picture_of(each) for each in fetched.outputs if _is_picture(each))
        outputs: list[NewOutput] = []
        warnings: list[Fault] = []
        for output in fetched.outputs:
            made = work.made.get(_picture_of(output)) if _is_picture(output) else None
            outputs.append(_replaced(output, made) if isinstance(made, _Made) else output)
            if isinstance(made, ConversionFailed):
                warnings.append(output_not_converted(output.node_id, output.filename, made.message))
        return replace(fetched, outputs=tuple(outputs), warnings=(*fetched.warnings, *warnings))


class _Work:
    """`made`: of each picture what came of it, why nothing did, or None: it stays as it is."""

    def __init__(self, converter: Converter, wanted: OutputConfig, owner: str, sink: Saves) -> None:
        self._converter = converter
        self._wanted = wanted
        self._owner = owner
        self._sink = sink
        self._loop = asyncio.get_running_loop()
        self._patience = self._loop.time() + MOST_WAITING_SECONDS
        self._spent = 0.0
        self.made: dict[_Picture, _Made | ConversionFailed | None] = {}

    async def convert_all(self, pictures: Iterable[_Picture]) -> None:
        """Each once, as many at once as there are places. Raises StoreUnavailable."""
        wanted = list(dict.fromkeys(pictures))
        waiting = iter(wanted)

        async def convert_some() -> None:
            for picture in waiting:
                try:
                    self.made[picture] = await self._convert(picture)
                except ConversionFailed as error:
                    self.made[picture] = error

        lanes = [
            asyncio.create_task(convert_some(), name="conversion-lane")
            for _ in range(min(self._converter.places, len(wanted)))
        ]
        try:
            await asyncio.gather(*lanes)
        finally:
            for lane in lanes:
                lane.cancel()
            await asyncio.gather(*lanes, return_exceptions=True)

    async def _convert(self, picture: _Picture) -> _Made | None:
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout_at(self._patience):
                    await stack.enter_async_context(self._converter.place(self._owner))
            except TimeoutError as error:
                raise ConversionFailed(
                    "The server was busy converting other pictures for too long."
                ) from error
            if self._spent > MOST_SECONDS:
                raise ConversionFailed("The pictures of this job before it took too long.")
            began = self._loop.time()
            try:
                return await self._made_of(picture)
            finally:
                self._spent += self._loop.time() - began

    async def _made_of(self, picture: _Picture) -> _Made | None:
        async with self._converter.convert(
            picture.blob_key, picture.content_type, self._wanted
        ) as made:
            if made is None:
                return None
            return _Made(await self._sink.save(made.chunks()), made.content_type, made.suffix)


def _picture_of(output: NewOutput) -> _Picture:
    return _Picture(output.blob_key, output.content_type)


def _replaced(output: NewOutput, made: _Made) -> NewOutput:
    return replace(
        output,
        filename=_renamed(output.filename, made.suffix),
        content_type=made.content_type,
        size=made.blob.size,
        sha256=made.blob.sha256,
        blob_key=made.blob.key,
        blake3=made.blob.blake3,
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
