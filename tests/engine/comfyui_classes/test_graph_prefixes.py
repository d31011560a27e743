"""Ids of nodes that nodes make, while several nodes run at once."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from comfyrail.engine.comfyui.graph_prefixes import keep_prefixes_apart, prefixed


@pytest.fixture
def builder() -> Any:
    class GraphBuilder:
        @classmethod
        def alloc_prefix(cls, root: Any = None, call: Any = None, graph: Any = None) -> str:
            return f"{root}.{call}.{graph}."

    keep_prefixes_apart(SimpleNamespace(GraphBuilder=GraphBuilder))
    return GraphBuilder


def test_each_graph_of_a_call_has_its_own_number(builder: Any) -> None:
    with prefixed("5", 2):
        assert [builder.alloc_prefix() for _ in range(2)] == ["5.2.0.", "5.2.1."]
        assert builder.alloc_prefix(root="x") == "x.2.2."
        assert builder.alloc_prefix(graph_index=9) == "5.2.9."
    with prefixed("5", 3):
        assert builder.alloc_prefix() == "5.3.0."


def test_outside_of_a_call_all_is_as_before(builder: Any) -> None:
    assert builder.alloc_prefix("a", 1, 2) == "a.1.2."
    assert builder.alloc_prefix() == "None.None.None."


async def test_calls_that_overlap_keep_apart(builder: Any) -> None:
    async def build(node_id: str) -> list[str]:
        with prefixed(node_id, 0):
            first = builder.alloc_prefix()
            await asyncio.sleep(0)
            return [first, builder.alloc_prefix()]

    one, two = await asyncio.gather(build("1"), build("2"))
    assert one == ["1.0.0.", "1.0.1."]
    assert two == ["2.0.0.", "2.0.1."]
