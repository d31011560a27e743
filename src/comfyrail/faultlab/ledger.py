"""What the client knows by itself: every yes that it heard, and every end that it saw."""

import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from comfyrail.faultlab.planned_jobs import PlannedJob


@dataclass(slots=True)
class Entry:
    """A job that the server has accepted. Times are of the client's clock that never jumps."""

    job: PlannedJob
    job_id: str
    acknowledged_at: float
    ended_at: float | None = None
    """When the client saw that it had ended."""


@dataclass(slots=True)
class Ledger:
    """Append-only: a line on disk for every reply 2xx, before anything else is done with it."""

    path: Path
    entries: dict[str, Entry] = field(default_factory=dict)
    contradictions: list[str] = field(default_factory=list)
    """Keys that were answered with two different jobs."""
    _file: IO[str] | None = None

    def __enter__(self) -> Self:
        self._file = self.path.open("a", encoding="utf-8")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._file is not None:
            self._file.close()

    def acknowledge(self, job: PlannedJob, job_id: str) -> Entry:
        """Write down that the server said yes; another time to a known key must be the same job."""
        if self._file is None:
            raise RuntimeError("the ledger is not open")
        line = {"key": job.key, "job_id": job_id, "time": time.time()}
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()
        known = self.entries.get(job.key)
        if known is None:
            known = self.entries[job.key] = Entry(job, job_id, time.monotonic())
        elif known.job_id != job_id:
            self.contradictions.append(f"{job.key} is {known.job_id} and {job_id}")
        return known

    @property
    def open_entries(self) -> list[Entry]:
        return [entry for entry in self.entries.values() if entry.ended_at is None]

    @property
    def ends(self) -> list[float]:
        """When jobs were seen to end, in order."""
        return sorted(each.ended_at for each in self.entries.values() if each.ended_at is not None)
