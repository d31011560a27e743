"""Measures every call of a node, inside of the world that the node expects around it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import Any

from comfyrail.engine.profiling.records import Call, RunRecord
from comfyrail.engine.surroundings import RunView, Surroundings


class MeasuringSurroundings(Surroundings):
    """Passes everything on, and measures calls while `record` is set."""

    def __init__(self, inner: Surroundings) -> None:
        self._inner = inner
        self.record: RunRecord | None = None

    @property
    def halting_errors(self) -> tuple[type[BaseException], ...]:  # type: ignore[override]
        return self._inner.halting_errors

    @property
    def judges_slowly(self) -> bool:  # type: ignore[override]
        return self._inner.judges_slowly

    @contextmanager
    def execution(self, run: RunView) -> Iterator[None]:
        if self.record is not None:
            self.record.graph = run.graph
        with self._inner.execution(run):
            yield

    def call(self, run: RunView, node_id: str, index: int) -> AbstractContextManager[None]:
        inner = self._inner.call(run, node_id, index)
        return inner if self.record is None else _Measured(inner, Call(self.record, node_id))

    def dynamic_prompt(self, run: RunView) -> Any:
        return self._inner.dynamic_prompt(run)

    def interrupt(self) -> None:
        self._inner.interrupt()

    def explain(self, error: BaseException) -> str:
        return self._inner.explain(error)

    def system_stats(self) -> Mapping[str, Any]:
        return self._inner.system_stats()

    def model_folders(self) -> Sequence[str] | None:
        return self._inner.model_folders()

    def models(self, kind: str) -> Sequence[str] | None:
        return self._inner.models(kind)

    def model_size(self, kind: str, name: str) -> int | None:
        return self._inner.model_size(kind, name)

    def embeddings(self) -> Sequence[str]:
        return self._inner.embeddings()

    def free(self, *, unload_models: bool, free_memory: bool) -> None:
        self._inner.free(unload_models=unload_models, free_memory=free_memory)


class _Measured:
    """A call with what is around it; only the call itself is measured."""

    __slots__ = ("_call", "_inner")

    def __init__(self, inner: AbstractContextManager[None], call: Call) -> None:
        self._inner = inner
        self._call = call

    def __enter__(self) -> None:
        self._inner.__enter__()
        self._call.begin()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        self._call.end()
        return self._inner.__exit__(kind, error, traceback)
