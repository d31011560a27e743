"""The newest preview of each running job. In memory only: a preview is never an event."""

import asyncio
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from comfyrail.ids import JobId

JOBS_KEPT = 1000
IMAGE_LIMIT = 4 << 20
BYTES_KEPT = 256 << 20
CONTENT_TYPES = frozenset({"image/jpeg", "image/png"})


@dataclass(frozen=True, slots=True)
class Preview:
    """`number` counts a job's previews from 1, so that a reader sees that there is a new one."""

    number: int
    node_id: str | None
    content_type: str
    image: bytes


class Previews:
    """One for the fleet. The jobs that were heard of longest ago are forgotten first."""

    def __init__(
        self,
        jobs_kept: int = JOBS_KEPT,
        image_limit: int = IMAGE_LIMIT,
        bytes_kept: int = BYTES_KEPT,
    ) -> None:
        self._jobs_kept = jobs_kept
        self._image_limit = image_limit
        self._bytes_kept = bytes_kept
        self._latest: OrderedDict[JobId, Preview] = OrderedDict()
        self._bytes = 0
        self._watchers: dict[JobId, set[asyncio.Event]] = {}

    def put(self, job_id: JobId, node_id: str | None, content_type: str, image: bytes) -> bool:
        """Keep a picture in place of the job's last one; False when it is refused."""
        if content_type not in CONTENT_TYPES or not 0 < len(image) <= self._image_limit:
            return False
        before = self._latest.get(job_id)
        self.drop(job_id)
        number = 1 if before is None else before.number + 1
        self._latest[job_id] = Preview(number, node_id, content_type, image)
        self._bytes += len(image)
        for watcher in self._watchers.get(job_id, ()):
            watcher.set()
        while len(self._latest) > self._jobs_kept or self._bytes > self._bytes_kept:
            self.drop(next(iter(self._latest)))
        return True

    def latest(self, job_id: JobId) -> Preview | None:
        return self._latest.get(job_id)

    @contextmanager
    def watching(self, job_id: JobId) -> Iterator[asyncio.Event]:
        """The event is set when there is a new one; whoever waits clears it."""
        watcher = asyncio.Event()
        watchers = self._watchers.setdefault(job_id, set())
        watchers.add(watcher)
        try:
            yield watcher
        finally:
            watchers.discard(watcher)
            if not watchers and self._watchers.get(job_id) is watchers:
                del self._watchers[job_id]

    def drop(self, job_id: JobId) -> None:
        """The job no longer runs."""
        dropped = self._latest.pop(job_id, None)
        if dropped is not None:
            self._bytes -= len(dropped.image)
