"""What an execution has done, written down as it goes, to go on from after a crash [12.3]."""

import contextlib
import fcntl
import hashlib
import json
import mmap
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import structlog

from comfyrail.engine.caching.codec import decode_result, encode_result
from comfyrail.engine.caching.faults import CorruptEntry, NotStorable
from comfyrail.engine.caching.result import CachedResult
from comfyrail.errors import ConfigurationError

log = structlog.get_logger(__name__)

JOURNAL = "journal.jsonl"
KEPT_SECONDS = 7 * 24 * 3600.0

_KEY = re.compile("[0-9a-f]{64}")


class Checkpoint:
    """A folder for one execution: a journal, and a file for each result. One process at a time.

    A result counts once its line is in the journal, which is written after its file. A line or a
    file that is cut short or damaged is as if it had not been written. Values without a safe form
    are not written: their nodes run again.
    """

    def __init__(self, root: Path, name: str, nonce: str | None = None) -> None:
        """Open or make it. Raises ConfigurationError where another execution has it open.

        `nonce` makes the keys of an execution that is under way its own; a checkpoint that is there
        already keeps the one that it has.
        """
        self.name = name
        _sweep(root)
        self._folder = root / hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._folder.mkdir(exist_ok=True, mode=0o700)
        self._journal = (self._folder / JOURNAL).open("a+b")
        try:
            fcntl.flock(self._journal, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._journal.close()
            raise ConfigurationError(
                f"Another execution writes to the checkpoint '{name}' now. Wait for it to end, "
                "or use another name."
            ) from error
        self._saved: set[str] = set()
        self._states: dict[str, Any] = {}
        self.nonce = ""
        """What tells the keys of this execution's nodes that are not cacheable from all others."""
        self._read_journal()
        if not self.nonce:
            self.nonce = nonce or secrets.token_hex(16)
            self._note({"nonce": self.nonce})
        self.results: Mapping[str, CachedResult] = _SavedResults(self._folder, self._saved)

    def save(self, key: str, result: CachedResult) -> None:
        """Write a result down; nothing happens when it cannot be written."""
        if key in self._saved:
            return
        try:
            parts = encode_result(result)
            _write_file(self._folder / key, parts)
        except NotStorable:
            return
        except OSError as error:
            log.warning("checkpoint_not_written", name=self.name, error=str(error))
            return
        self._note({"key": key})
        self._saved.add(key)

    def save_state(self, key: str, state: Any) -> None:
        """Write down what the node of this key wants to know when it is run again. Raises
        TypeError for what is not plain data.
        """
        self._note({"state_of": key, "state": state})
        self._states[key] = state

    def state_of(self, key: str) -> Any:
        """What the node of this key wrote down last, or None."""
        return self._states.get(key)

    def remove(self) -> None:
        """The execution has ended well: there is nothing to go on from."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def close(self) -> None:
        self._journal.close()

    def _note(self, line: Mapping[str, Any]) -> None:
        text = json.dumps(line)
        try:
            self._journal.write(text.encode() + b"\n")
            self._journal.flush()
        except OSError as error:
            log.warning("checkpoint_not_written", name=self.name, error=str(error))

    def _read_journal(self) -> None:
        self._journal.seek(0)
        content = self._journal.read()
        # A line that was cut short would swallow the next one.
        if content and not content.endswith(b"\n"):
            self._journal.write(b"\n")
        for raw in content.split(b"\n"):
            with contextlib.suppress(ValueError):
                self._read_line(json.loads(raw))

    def _read_line(self, line: Any) -> None:
        if not isinstance(line, dict):
            return
        key, state_of, nonce = line.get("key"), line.get("state_of"), line.get("nonce")
        if isinstance(key, str) and _KEY.fullmatch(key):
            self._saved.add(key)
        elif isinstance(state_of, str):
            self._states[state_of] = line.get("state")
        elif isinstance(nonce, str):
            self.nonce = nonce


class _SavedResults(Mapping[str, CachedResult]):
    """Results by key, read when they are asked for. A damaged one is not there."""

    def __init__(self, folder: Path, keys: set[str]) -> None:
        self._folder = folder
        self._keys = keys

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __getitem__(self, key: str) -> CachedResult:
        if key not in self._keys:
            raise KeyError(key)
        try:
            with (self._folder / key).open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                content = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) if size else b""
            return decode_result(content)
        except (OSError, CorruptEntry) as error:
            log.warning("checkpoint_entry_unreadable", key=key, error=str(error))
            self._keys.discard(key)
            raise KeyError(key) from error


def _sweep(root: Path) -> None:
    """Remove what nobody has come back to for a long time."""
    oldest = time.time() - KEPT_SECONDS
    with contextlib.suppress(OSError):
        for folder in list(root.iterdir()):
            if (folder / JOURNAL).stat().st_mtime < oldest:
                shutil.rmtree(folder, ignore_errors=True)


def _write_file(path: Path, parts: list[bytes | memoryview]) -> None:
    temporary = path.with_suffix(".part")
    with temporary.open("wb") as file:
        for part in parts:
            file.write(part)
    temporary.replace(path)
