"""A smaller graph that gives the same: nodes that nothing needs, and nodes that are there twice.

Which nodes matter and which may be merged is for the caller to say. Linear, without recursion.
"""

import json
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from comfyrail.workflow.graph import Node, Workflow, is_link


def find_dead_nodes(workflow: Workflow, is_wanted: Callable[[Node], bool]) -> list[str]:
    """The nodes that feed none of those that are wanted, in the order of the workflow."""
    waiting = [node.id for node in workflow.nodes.values() if is_wanted(node)]
    alive: set[str] = set()
    while waiting:
        node_id = waiting.pop()
        if node_id not in alive:
            alive.add(node_id)
            waiting.extend(workflow.sources[node_id])
    return [node_id for node_id in workflow.nodes if node_id not in alive]


def find_dependents(workflow: Workflow, starts: Iterable[str]) -> set[str]:
    """The given nodes and all that take something from them, directly or not."""
    reached = set(starts)
    for node_id in workflow.order:
        if not reached.isdisjoint(workflow.sources[node_id]):
            reached.add(node_id)
    return reached


def find_duplicates(workflow: Workflow, may_merge: Callable[[Node], bool]) -> dict[str, str]:
    """Nodes that give what an earlier one gives, each with that one.

    Two nodes are equal when they have the same type, equal literals and links to equal outputs:
    every node gets the name of the first of its kind, after all that feed it. Raises
    CyclicWorkflow.
    """
    first_of_kind: dict[Hashable, str] = {}
    replaced: dict[str, str] = {}
    for node_id in workflow.order:
        node = workflow.nodes[node_id]
        if may_merge(node):
            kind = describe_node(node, replaced)
            first = first_of_kind.setdefault(kind, node_id) if kind is not None else node_id
            if first != node_id:
                replaced[node_id] = first
    return replaced


def describe_node(
    node: Node, replaced: Mapping[str, str], besides: Collection[str] = ()
) -> Hashable | None:
    """A value that is equal for equal nodes only; None where there is none.

    Links to a replaced node are those to the one that takes its place; the inputs `besides` are
    left out.
    """
    inputs: list[tuple[str, Hashable]] = []
    for name in sorted(node.inputs):
        if name not in besides:
            described = _describe_value(node.inputs[name], replaced)
            if described is None:
                return None
            inputs.append((name, described))
    return (node.class_type, tuple(inputs))


def without_nodes(workflow: Workflow, removed: Collection[str]) -> Workflow:
    kept = {node_id: node for node_id, node in workflow.nodes.items() if node_id not in removed}
    return replace(workflow, nodes=kept)


def merge_nodes(workflow: Workflow, replaced: Mapping[str, str]) -> Workflow:
    """The workflow without the replaced nodes; links to them lead to those in their place."""
    merged: dict[str, Node] = {}
    for node_id, node in workflow.nodes.items():
        if node_id in replaced:
            continue
        moved = {
            name: [replaced[value[0]], value[1]]
            for name, value in node.inputs.items()
            if is_link(value) and value[0] in replaced
        }
        merged[node_id] = replace(node, inputs={**node.inputs, **moved}) if moved else node
    return replace(workflow, nodes=merged)


def _describe_value(value: Any, replaced: Mapping[str, str]) -> Hashable | None:
    if is_link(value):
        return ("link", replaced.get(value[0], value[0]), int(value[1]))
    try:
        # The text tells 1, 1.0, true and "1" apart.
        return json.dumps(value, sort_keys=True)
    except (TypeError, ValueError, RecursionError):
        return None
