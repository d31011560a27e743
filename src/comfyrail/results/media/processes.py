"""The server's side of media processes: started when there is a task, ended when there is none."""

import asyncio
import contextlib
import os
import shutil
import sys
import tempfile
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
import structlog

from comfyrail.errors import StoreUnavailable
from comfyrail.jobs.output_config import ImageFormat
from comfyrail.results.media.messages import (
    LONGEST_ANSWER,
    READY,
    Answer,
    Convert,
    Converted,
    Look,
    Looked,
    NoRoom,
    Refused,
    Task,
    encode,
    read_answer,
)
from comfyrail.results.media.unusable import Unusable
from comfyrail.store.disk_trouble import disk_error

log = structlog.get_logger(__name__)

MODULE = "comfyrail.results.media.process"
IDLE_SECONDS = 30.0
START_SECONDS = 60.0
TASK_SECONDS = 60.0
WAITING_FACTOR = 2.0
"""So much longer than its processor's time may a task take: the machine may be busy."""
_ENVIRONMENT = (
    *("PATH", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"),
    *("LANG", "LC_ALL", "TMPDIR"),
)
"""No more of the environment goes there: it may have secrets."""


class MediaProcessEnded(Exception):
    """The process that had the task ended or was ended: by the file, as far as anybody knows."""


class MediaUnavailable(StoreUnavailable):
    """No media process can be started: that says nothing of any file."""

    code = "MEDIA_UNAVAILABLE"


@dataclass(slots=True)
class _Child:
    process: Process
    retiring: asyncio.TimerHandle | None = None


class MediaProcesses:
    """At most `most` at once; each does one task after the other."""

    def __init__(
        self,
        folder: Path,
        most: int = 1,
        *,
        niceness: int = 0,
        task_seconds: float = TASK_SECONDS,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        """`folder`: for what is being made; what is left in it by others is removed."""
        self.most = most
        self._folder = folder
        self._niceness = niceness
        self._task_seconds = task_seconds
        self._idle_seconds = idle_seconds
        self._room = asyncio.Semaphore(most)
        self._idle: list[_Child] = []
        self._ending: set[asyncio.Task[int]] = set()
        shutil.rmtree(folder, ignore_errors=True)

    @asynccontextmanager
    async def look(self, path: Path, content_type: str) -> AsyncIterator[tuple[Looked, Path]]:
        """What a file is, and the folder of what was made of it, which goes with the context.

        Raises MediaProcessEnded, Unusable, StoreUnavailable.
        """
        async with self._scratch() as folder:
            answer = await self._ask(
                Look(
                    path=str(path),
                    content_type=content_type,
                    folder=str(folder),
                    seconds=self._task_seconds,
                )
            )
            if not isinstance(answer, Looked):
                raise _odd(answer)
            yield answer, folder

    @asynccontextmanager
    async def convert(
        self,
        path: Path,
        content_type: str,
        wanted: ImageFormat | None,
        quality: int | None,
    ) -> AsyncIterator[tuple[Converted, Path]]:
        """A picture in another format. Raises as `look`."""
        async with self._scratch() as folder:
            answer = await self._ask(
                Convert(
                    path=str(path),
                    content_type=content_type,
                    folder=str(folder),
                    seconds=self._task_seconds,
                    format=wanted,
                    quality=quality,
                )
            )
            if not isinstance(answer, Converted):
                raise _odd(answer)
            yield answer, folder

    async def close(self) -> None:
        """End all processes; there must be no task any more."""
        while self._idle:
            self._retire(self._idle[-1])
        await asyncio.gather(*self._ending, return_exceptions=True)
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    @asynccontextmanager
    async def _scratch(self) -> AsyncIterator[Path]:
        try:
            folder = await asyncio.to_thread(self._make_folder)
        except OSError as error:
            raise disk_error("The media folder", self._folder, error) from error
        try:
            yield folder
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    def _make_folder(self) -> Path:
        self._folder.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(dir=self._folder.absolute()))

    async def _ask(self, task: Task) -> Answer:
        async with self._room:
            child = await self._take()
            try:
                answer = await self._exchange(child, task)
            except BaseException:
                log.info("media_process_ended", code=await _end(child.process))
                raise
            self._give_back(child)
        if isinstance(answer, Refused):
            raise Unusable(answer.reason)
        if isinstance(answer, NoRoom):
            error = OSError(answer.number, os.strerror(answer.number))
            raise disk_error("The media folder", self._folder, error)
        return answer

    async def _exchange(self, child: _Child, task: Task) -> Answer:
        process = child.process
        writer, reader = _writer(process), _reader(process)
        limit = task.seconds * WAITING_FACTOR
        try:
            writer.write(encode(task) + b"\n")
            async with asyncio.timeout(limit):
                await writer.drain()
                line = await reader.readline()
            if line.endswith(b"\n"):
                return read_answer(line)
        except TimeoutError as error:
            raise MediaProcessEnded(f"It took longer than {limit:g} s.") from error
        except (OSError, ValueError, msgspec.MsgspecError) as error:
            raise MediaProcessEnded("The process that had it failed.") from error
        raise MediaProcessEnded("The process that had it ended.")

    async def _take(self) -> _Child:
        while self._idle:
            child = self._idle.pop()
            if child.retiring is not None:
                child.retiring.cancel()
            if child.process.returncode is None:
                return child
        return _Child(await self._start())

    async def _start(self) -> Process:
        try:
            process = await self._spawn()
        except OSError as error:
            raise MediaUnavailable(f"A media process cannot be started: {error}.") from error
        try:
            async with asyncio.timeout(START_SECONDS):
                line = await _reader(process).readline()
        except TimeoutError:
            line = b""
        except BaseException:
            await _end(process)
            raise
        if line != READY:
            await _end(process)
            raise MediaUnavailable("A media process was started and has ended at once.")
        return process

    async def _spawn(self) -> Process:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            MODULE,
            str(self._niceness),
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,
            env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
            limit=LONGEST_ANSWER,
        )

    def _give_back(self, child: _Child) -> None:
        self._idle.append(child)
        loop = asyncio.get_running_loop()
        child.retiring = loop.call_later(self._idle_seconds, self._retire, child)

    def _retire(self, child: _Child) -> None:
        if child.retiring is not None:
            child.retiring.cancel()
        self._idle.remove(child)
        ending = asyncio.create_task(_end(child.process), name="media-process-end")
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)


def _odd(answer: Answer) -> MediaProcessEnded:
    return MediaProcessEnded(f"The process that had it answered with {type(answer).__name__}.")


def _writer(process: Process) -> asyncio.StreamWriter:
    assert process.stdin is not None  # noqa: S101 - it was started with pipes
    return process.stdin


def _reader(process: Process) -> asyncio.StreamReader:
    assert process.stdout is not None  # noqa: S101 - as above
    return process.stdout


async def _end(process: Process) -> int:
    """How it ended."""
    _writer(process).close()
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
    return await process.wait()
