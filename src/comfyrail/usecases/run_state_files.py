"""The states of runs as files: one a run, readable by the server's user alone [10.4]."""

import asyncio
import contextlib
import json
import os
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import structlog

from comfyrail.clock import Clock
from comfyrail.disk import sync_folder
from comfyrail.ids import TenantId
from comfyrail.store.interface import Store
from comfyrail.usecases.run_folders import folder_name
from comfyrail.usecases.run_record import AREA, read_state
from comfyrail.usecases.run_states import KnownState, as_file

log = structlog.get_logger(__name__)

SUFFIX = ".json"
PART = ".part"
CORRUPT = ".corrupt-"
WRITES_A_SECOND = 10
RETRY_SECONDS = 5.0
PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700


class RunStateFiles:
    """Files are written one after another, at most so many a second: of a run that changes faster
    only the newest state is. The store is what counts; a file that is not right is made anew.
    """

    def __init__(self, folder: Path, store: Store, clock: Clock) -> None:
        self._folder = folder
        self._store = store
        self._clock = clock
        self._waiting: OrderedDict[tuple[TenantId, str], bytes | None] = OrderedDict()
        """What each file is to be; None: gone."""
        self._news = asyncio.Event()

    def put(self, tenant: TenantId, run_id: str, content: bytes) -> None:
        self._waiting[tenant, run_id] = content
        self._news.set()

    def remove(self, tenant: TenantId, run_id: str) -> None:
        self._waiting[tenant, run_id] = None
        self._news.set()

    async def run(self) -> None:
        try:
            await self._mend()
            while True:
                await self._news.wait()
                self._news.clear()
                while self._waiting:
                    await self._write_next()
                    await asyncio.sleep(1 / WRITES_A_SECOND)
        finally:
            # What is left when the server stops: all states are in the store in any case.
            for (tenant, run_id), content in self._waiting.items():
                with contextlib.suppress(Exception):
                    self._apply(tenant, run_id, content)

    async def _write_next(self) -> None:
        key, content = self._waiting.popitem(last=False)
        try:
            await asyncio.to_thread(self._apply, *key, content)
        except OSError as error:
            log.warning("run_state_not_written", run_id=key[1], error=error.strerror)
            asyncio.get_running_loop().call_later(RETRY_SECONDS, self._put_again, key, content)
        except Exception:  # one file must not end all others
            log.exception("run_state_not_written", run_id=key[1])

    def _put_again(self, key: tuple[TenantId, str], content: bytes | None) -> None:
        """Unless there is something newer."""
        self._waiting.setdefault(key, content)
        self._news.set()

    def _apply(self, tenant: TenantId, run_id: str, content: bytes | None) -> None:
        folder = self._folder / folder_name(tenant)
        path = folder / f"{run_id}{SUFFIX}"
        self._set_aside_if_corrupt(path)
        if content is None:
            path.unlink(missing_ok=True)
            return
        folder.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        part = folder / f".{run_id}{PART}"
        part.unlink(missing_ok=True)
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
        sync_folder(folder)

    async def _mend(self) -> None:
        """After a start: what a dead server has left half-way, or somebody else has spoilt."""
        try:
            found = await asyncio.to_thread(lambda: list(self._files()))
        except OSError as error:
            log.warning("run_states_not_read", folder=str(self._folder), error=error.strerror)
            return
        for tenant, path in found:
            try:
                await self._mend_file(tenant, path)
            except Exception:  # one file must not end all others
                log.exception("run_state_not_mended", file=str(path))

    async def _mend_file(self, tenant: TenantId, path: Path) -> None:
        """What has happened since the start is newer."""
        run_id = path.name.removesuffix(SUFFIX)
        document = await self._store.get_document(tenant, AREA, run_id)
        wanted = None
        if document is not None:
            wanted = as_file(KnownState(document.version, read_state(document.content)))
        if wanted is None or await asyncio.to_thread(_read, path) != wanted:
            self._put_again((tenant, run_id), wanted)

    def _files(self) -> Iterator[tuple[TenantId, Path]]:
        if not self._folder.is_dir():
            return
        for folder in self._folder.iterdir():
            if folder.is_dir():
                for path in folder.iterdir():
                    if path.name.endswith(SUFFIX) and path.is_file():
                        yield TenantId(unquote(folder.name)), path

    def _set_aside_if_corrupt(self, path: Path) -> None:
        content = _read(path)
        if content is None or _is_whole(content):
            return
        aside = path.with_name(f"{path.name}{CORRUPT}{self._clock.now()}")
        path.rename(aside)
        log.warning("corrupt_run_state", file=str(path), kept_as=aside.name)


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _is_whole(content: bytes) -> bool:
    try:
        state = json.loads(content)
    except (ValueError, RecursionError, MemoryError):  # UnicodeDecodeError is the first too
        return False
    return isinstance(state, dict) and isinstance(state.get("version"), int)
