"""Ids of the nodes that a node makes: unique, also while several nodes run at once.

ComfyUI's GraphBuilder puts a prefix before its ids: the id of the running node, the number of the
call, and the number of the graph within that call. It keeps these in one place for all, so nodes
that overlap would get each other's. Here each call has its own.
"""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class _Call:
    node_id: str
    index: int
    graphs: Iterator[int] = field(default_factory=itertools.count)


_current: ContextVar[_Call | None] = ContextVar("graph_prefix", default=None)


@contextmanager
def prefixed(node_id: str, index: int) -> Iterator[None]:
    """Graphs that are built inside belong to this call."""
    token = _current.set(_Call(node_id, index))
    try:
        yield
    finally:
        _current.reset(token)


def keep_prefixes_apart(graph_utils: Any) -> None:
    """Let GraphBuilder take its prefixes from the call that is running; else as before."""
    builder: Any = graph_utils.GraphBuilder
    allocate = builder.alloc_prefix

    def alloc_prefix(
        _: Any,
        root: str | None = None,
        call_index: int | None = None,
        graph_index: int | None = None,
    ) -> Any:
        call = _current.get()
        if call is None:
            return allocate(root, call_index, graph_index)
        return allocate(
            call.node_id if root is None else root,
            call.index if call_index is None else call_index,
            next(call.graphs) if graph_index is None else graph_index,
        )

    builder.alloc_prefix = classmethod(alloc_prefix)
