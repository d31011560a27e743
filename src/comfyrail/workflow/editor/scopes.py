"""A file's graph with its subgraphs unfolded: one scope for every use of a subgraph.

A subgraph's definition is shared by all of its uses. What differs is where a use stands, what its
inputs are linked to, and the values of inner widgets that it shows on its outside.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from comfyrail.errors import CyclicWorkflow, MalformedWorkflow
from comfyrail.workflow.editor.model import (
    BYPASSED,
    MUTED,
    EditorDocument,
    EditorGraph,
    EditorNode,
    InputSlot,
)
from comfyrail.workflow.editor.promotion import Overrides, ShownWidgets, shown_values
from comfyrail.workflow.order import topological_order

NODE_LIMIT = 200_000
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


def unfold(document: EditorDocument, widgets: ShownWidgets) -> list[Scope]:
    """All scopes, the root first. Raises MalformedWorkflow for subgraphs without an end."""
    _refuse_endless(document)
    root = Scope(document.graph)
    scopes = [root]
    for scope in scopes:  # grows while it is walked
        for node in scope.graph.nodes.values():
            definition = document.subgraphs.get(node.type)
            if definition is not None and node.mode not in {MUTED, BYPASSED}:
                inner = _use(scope, node, definition, widgets)
                scope.inner[node.id] = inner
                scopes.append(inner)
    return scopes


def instance_slots(node: EditorNode, definition: EditorGraph) -> list[InputSlot]:
    """The inputs of a node that stands for a subgraph, in the order of the subgraph's own."""
    given: dict[str, list[InputSlot]] = {}
    for slot in reversed(node.inputs):
        given.setdefault(slot.name, []).append(slot)
    slots: list[InputSlot] = []
    for declared in definition.inputs:
        same_name = given.get(declared.name)
        link = same_name.pop().link if same_name else None
        slots.append(InputSlot(declared.name, declared.type, link))
    return slots


def _use(scope: Scope, node: EditorNode, definition: EditorGraph, widgets: ShownWidgets) -> Scope:
    outer = scope.overrides.get(node.id, {})
    shown, overrides = shown_values(node, definition, widgets, outer)
    return Scope(
        graph=definition,
        prefix=f"{scope.prefix}{node.id}:",
        instance=node,
        parent=scope,
        slots=instance_slots(node, definition),
        shown=shown,
        overrides=overrides,
    )


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
    sizes: dict[str, int] = {}
    depths: dict[str, int] = {}
    for key in order:
        sizes[key] = len(document.subgraphs[key].nodes) + sum(sizes[each] for each in used[key])
        depths[key] = 1 + max((depths[each] for each in used[key]), default=0)
    inner = [node.type for node in document.graph.nodes.values() if node.type in sizes]
    total = len(document.graph.nodes) + sum(sizes[key] for key in inner)
    if total > NODE_LIMIT or max((depths[key] for key in inner), default=0) > NESTING_LIMIT:
        raise MalformedWorkflow(
            f"With its subgraphs unfolded the workflow has {min(total, 10**12)} nodes: at most "
            f"{NODE_LIMIT} are read, nested at most {NESTING_LIMIT} deep.",
            details={"path": "definitions"},
        )


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
