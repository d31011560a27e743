"""A server's data folder as it lies on disk: the database opened read-only, and the blobs."""

import hashlib
import json
import os
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

DATABASE_NAME = "comfyrail.db"
FINAL_STATES = {"completed", "failed", "cancelled"}
FINAL_EVENTS = {f"execution.{state}" for state in FINAL_STATES}


@dataclass(slots=True)
class StoredJob:
    """What the database says of one job."""

    job_id: str
    state: str
    fault_code: str | None = None
    events: list[tuple[int, str]] = field(default_factory=list)
    completed_attempts: int = 0
    attempts: int = 0
    outputs: list[tuple[str, int, str]] = field(default_factory=list)
    """(blob, size, sha256) of every output, those of tries that failed half-way included."""
    whole_outputs: int = 0

    @property
    def event_faults(self) -> list[str]:
        """What is wrong with its events: 1 to n, of which the last and no other is final."""
        numbers = [number for number, _ in self.events]
        finals = [kind for _, kind in self.events if kind in FINAL_EVENTS]
        wrong = []
        if numbers != list(range(1, len(numbers) + 1)):
            wrong.append(f"{self.job_id}: its events are numbered {_shortened(numbers)}")
        if self.state in FINAL_STATES:
            last = self.events[-1][1] if self.events else "none"
            if last != f"execution.{self.state}":
                wrong.append(f"{self.job_id}: it is {self.state}, its last event is {last}")
            if len(finals) != 1:
                wrong.append(f"{self.job_id}: its final events are {finals}")
        elif finals:
            wrong.append(f"{self.job_id}: it is {self.state} and has the events {finals}")
        return wrong

    @property
    def completions(self) -> int:
        """How often it was completed, by the events or by the attempts."""
        kinds = Counter(kind for _, kind in self.events)
        return max(kinds["execution.completed"], self.completed_attempts)


def read_jobs(data: Path) -> dict[str, StoredJob]:
    """Every job in the database, by id."""
    with closing(_open(data)) as database:
        jobs = {
            row[0]: StoredJob(row[0], row[1], _code_of(row[2]))
            for row in database.execute("SELECT id, state, fault FROM jobs")
        }
        for job_id, number, kind in database.execute(
            "SELECT job_id, number, type FROM events WHERE job_id IS NOT NULL "
            "ORDER BY job_id, sequence"
        ):
            jobs[job_id].events.append((number, kind))
        for job_id, state in database.execute("SELECT job_id, state FROM attempts"):
            jobs[job_id].attempts += 1
            jobs[job_id].completed_attempts += state == "completed"
        for job_id, blob, size, digest, is_partial in database.execute(
            "SELECT job_id, blob_key, size, sha256, is_partial FROM outputs"
        ):
            jobs[job_id].outputs.append((blob, size, digest))
            jobs[job_id].whole_outputs += not is_partial
    return jobs


def missing_blobs(data: Path, jobs: dict[str, StoredJob]) -> list[str]:
    """Outputs whose file is not there, or is not what the database says."""
    wrong = []
    for job in jobs.values():
        for blob, size, digest in job.outputs:
            path = data / "blobs" / blob
            content = path.read_bytes() if path.is_file() else None
            if content is None:
                wrong.append(f"{job.job_id}: the file of {blob} is not there")
            elif len(content) != size or hashlib.sha256(content).hexdigest() != digest:
                wrong.append(f"{job.job_id}: the file of {blob} has other content")
    return wrong


def orphaned_blobs(data: Path) -> list[str]:
    """Files of the blob store that no output refers to, nor stand for one in small, and those that
    are on their way.
    """
    with closing(_open(data)) as database:
        known = {
            row[0]
            for row in database.execute(
                "SELECT blob_key FROM outputs UNION SELECT variant_key FROM media_variants"
            )
        }
    return sorted(name for name in _blobs(data) if name not in known)


def age_blobs(data: Path, seconds: float) -> None:
    """Make every file of the blob store so much older: a server spares what is young."""
    for name in list(_blobs(data)):
        path = data / "blobs" / name
        state = path.stat()
        os.utime(path, (state.st_atime - seconds, state.st_mtime - seconds))


def _blobs(data: Path) -> Iterator[str]:
    folder = data / "blobs"
    for path in folder.rglob("*"):
        if path.is_file():
            yield path.relative_to(folder).as_posix()


def _open(data: Path) -> sqlite3.Connection:
    path = (data / DATABASE_NAME).absolute()
    return sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=10)


def _code_of(fault: bytes | None) -> str | None:
    return None if fault is None else str(json.loads(fault).get("code"))


def _shortened(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers[:20])) + (" …" if len(numbers) > 20 else "")
