"""Makes outputs findable by the texts of the graphs that made them [8.1]: prompts, names of models,
notes. Beside the way of a job: nothing waits for it.
"""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import msgspec
import structlog

from comfyrail.errors import StoreUnavailable
from comfyrail.store.outputs import JobToIndex, OutputStore
from comfyrail.store.search_words import apart
from comfyrail.store.signals import INDEX, Signals

log = structlog.get_logger(__name__)

AT_ONCE = 100
LONGEST_TEXT = 20_000
"""Characters of a job's texts that can be found."""
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


def text_of(prompt: bytes) -> str:
    """All texts among the inputs of a graph's nodes, and the nodes' types and titles."""
    try:
        nodes = msgspec.json.decode(prompt, type=dict[str, dict[str, Any]])
    except msgspec.DecodeError:
        return ""
    pieces: list[str] = []
    length = 0
    for piece in _pieces(nodes):
        if length + len(piece) > LONGEST_TEXT:
            pieces.append(piece[: LONGEST_TEXT - length])
            break
        pieces.append(piece)
        length += len(piece)
    return "\n".join(pieces)


def _pieces(nodes: dict[str, dict[str, Any]]) -> Iterator[str]:
    for node in nodes.values():
        inputs = node.get("inputs")
        values = inputs.values() if isinstance(inputs, dict) else ()
        yield from (value for value in values if isinstance(value, str))
    for node in nodes.values():
        meta = node.get("_meta")
        title = meta.get("title") if isinstance(meta, dict) else None
        yield from (each for each in (title, node.get("class_type")) if isinstance(each, str))
