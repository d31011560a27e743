"""Makes jobs and outputs findable by the texts of their graphs [8.1]: prompts, names of models,
notes. Beside the way of a job: nothing waits for it.
"""

import asyncio
from collections.abc import Sequence
from typing import Protocol

import structlog

from comfyrail.errors import StoreUnavailable
from comfyrail.store.outputs import JobToIndex, OutputStore
from comfyrail.store.search_words import apart, text_of
from comfyrail.store.signals import INDEX, Signals

log = structlog.get_logger(__name__)

AT_ONCE = 100
PAUSE_SECONDS = 0.2
"""A burst of jobs is written in few transactions."""
LOOK_SECONDS = 60.0


class IndexSource(OutputStore, Protocol):
    signals: Signals


class Indexer:
    """`run` goes on until it is cancelled."""

    def __init__(self, store: IndexSource) -> None:
        self._store = store

    async def run(self) -> None:
        with self._store.signals.subscribe(INDEX) as news:
            while True:
                try:
                    await self.catch_up()
                except StoreUnavailable as error:
                    log.warning("outputs_not_indexed", error=error.message)
                except Exception:  # the next round may do better
                    log.exception("index_failed")
                await news.wait(LOOK_SECONDS)
                await asyncio.sleep(PAUSE_SECONDS)

    async def catch_up(self) -> None:
        """Until nothing is left."""
        while jobs := await self._store.jobs_to_index(AT_ONCE):
            await self._store.index_jobs(await asyncio.to_thread(_texts_of, jobs))


def _texts_of(jobs: Sequence[JobToIndex]) -> list[tuple[JobToIndex, str]]:
    return [(job, apart(text_of(job.prompt))) for job in jobs]
