"""A file's graph with its subgraphs unfolded: one scope for every use of a subgraph.

A subgraph's definition is shared by all of its uses. What differs is where a use stands, what its
inputs are linked to, and the values of inner widgets that it shows on its outside.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from comfyrail.errors import CyclicWorkflow, MalformedWorkflow
from comfyrail.workflow.editor.allowance import Allowance
from comfyrail.workflow.editor.kept import PROPERTY
from comfyrail.workflow.editor.model import (
    BYPASSED,
    MUTED,
    EditorDocument,
    EditorGraph,
    EditorNode,
    InputSlot,
)
from comfyrail.workflow.editor.promotion import PROXIES, SET_ASIDE, Overrides, ShownWidgets
from comfyrail.workflow.order import topological_order

NODE_LIMIT = 200_000
PART_LIMIT = 1_000_000
"""Inputs and values of all nodes that come out of subgraphs: what is there once in a file may be
used any number of times.
"""
NESTING_LIMIT = 64


@dataclass(slots=True, eq=False)
class Scope:
    """The root graph, or one use of a subgraph: `instance` is the node that stands for it in
    `parent`, and `slots` are that node's inputs in the order of the subgraph's.

    `shown` are the values that the instance gives to inputs of the subgraph, `overrides` those of
    widgets inside, by node and widget.
    """

    graph: EditorGraph
    prefix: str = ""
    instance: EditorNode | None = None
    parent: "Scope | None" = None
    slots: Sequence[InputSlot] = ()
    shown: Mapping[str, Any] = field(default_factory=dict)
    overrides: Overrides = field(default_factory=dict)
    inner: dict[str, "Scope"] = field(default_factory=dict)


def unfold(document: EditorDocument, widgets: ShownWidgets, allowance: Allowance) -> list[Scope]:
    """All scopes, the root first. Raises MalformedWorkflow for subgraphs without an end."""
    _refuse_endless(document)
    root = Scope(document.graph)
    scopes = [root]
    for scope in scopes:  # grows while it is walked
        for node in scope.graph.nodes.values():
            definition = document.subgraphs.get(node.type)
            if definition is not None and node.mode not in {MUTED, BYPASSED}:
                allowance.spend(len(scope.prefix) + len(node.id))
                inner = _use(scope, node, definition, widgets)
                scope.inner[node.id] = inner
                scopes.append(inner)
    return scopes


def _use(scope: Scope, node: EditorNode, definition: EditorGraph, widgets: ShownWidgets) -> Scope:
    given = widgets.given(scope.graph, node, definition, scope.overrides.get(node.id, {}))
    return Scope(
        graph=definition,
        prefix=f"{scope.prefix}{node.id}:",
        instance=node,
        parent=scope,
        slots=widgets.slots(scope.graph, node),
        shown=given.values,
        overrides=given.overrides,
    )


class _Size(NamedTuple):
    """What one use of a subgraph unfolds to."""

    nodes: int = 0
    parts: int = 0
    depth: int = 0


def _refuse_endless(document: EditorDocument) -> None:
    """Count what unfolding would give before it is done: a small file may mean 10^9 nodes."""
    used = dict(_used_definitions(document))
    try:
        order = topological_order(used)
    except CyclicWorkflow as error:
        names = " → ".join(f"'{document.subgraphs[key].name}'" for key in error.cycle)
        raise MalformedWorkflow(
            f"Subgraphs contain themselves: {names}. Take one out of the other.",
            details={"path": "definitions", "cycle": error.cycle},
        ) from error
    sizes: dict[str, _Size] = {}
    for key in order:
        graph = document.subgraphs[key]
        inner = _sum(sizes[each] for each in used[key])
        own = len(graph.inputs) + sum(_parts(node) for node in graph.nodes.values())
        sizes[key] = _Size(len(graph.nodes) + inner.nodes, own + inner.parts, 1 + inner.depth)
    inner = _sum(sizes[node.type] for node in document.graph.nodes.values() if node.type in sizes)
    total = len(document.graph.nodes) + inner.nodes
    if total > NODE_LIMIT or inner.depth > NESTING_LIMIT:
        raise MalformedWorkflow(
            f"With its subgraphs unfolded the workflow has {min(total, 10**12)} nodes: at most "
            f"{NODE_LIMIT} are read, nested at most {NESTING_LIMIT} deep.",
            details={"path": "definitions"},
        )
    if inner.parts > PART_LIMIT:
        raise MalformedWorkflow(
            f"The subgraphs of the workflow unfold to {min(inner.parts, 10**12)} inputs and "
            f"values: at most {PART_LIMIT} are read.",
            details={"path": "definitions"},
        )


def _sum(sizes: Iterator[_Size]) -> _Size:
    nodes = parts = depth = 0
    for size in sizes:
        nodes, parts = nodes + size.nodes, parts + size.parts
        depth = max(depth, size.depth)
    return _Size(nodes, parts, depth)


def _parts(node: EditorNode) -> int:
    """All that is walked again for every use of the subgraph that a node is in."""
    kept = node.properties.get(PROPERTY)
    lists = [node.properties.get(PROXIES), node.properties.get(SET_ASIDE)]
    if isinstance(kept, Mapping):
        lists += [kept.get("inputs"), kept.get("literals")]
    more = sum(len(each) for each in lists if isinstance(each, list | Mapping))
    return len(node.inputs) + len(node.values) + len(node.named) + more


def _used_definitions(document: EditorDocument) -> Iterator[tuple[str, list[str]]]:
    """The subgraphs that the root leads to, each with those that it uses."""
    waiting = [document.graph]
    seen: set[str] = set()
    while waiting:
        graph = waiting.pop()
        uses = [node.type for node in graph.nodes.values() if node.type in document.subgraphs]
        if graph.id:
            yield graph.id, uses
        for key in uses:
            if key not in seen:
                seen.add(key)
                waiting.append(document.subgraphs[key])
