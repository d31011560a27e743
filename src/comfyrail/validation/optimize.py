"""Making a workflow smaller without changing what it gives [2.5]."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from comfyrail.errors import CyclicWorkflow
from comfyrail.validation.deterministic import looks_at_the_graph, may_merge
from comfyrail.workflow.catalog import NodeCatalog
from comfyrail.workflow.graph import Node, Workflow
from comfyrail.workflow.simplify import (
    find_dead_nodes,
    find_duplicates,
    merge_nodes,
    without_nodes,
)


@dataclass(frozen=True, slots=True)
class Optimization:
    """One change. `kept` is the node that does the work of a merged one."""

    kind: Literal["removed_dead_node", "merged_duplicate"]
    node_id: str
    message: str
    kept: str | None = None


def apply_optimizations(
    workflow: Workflow, catalog: NodeCatalog
) -> tuple[Workflow, list[Optimization]]:
    """The workflow without dead nodes and without second nodes of a kind, and what was done.

    Every output node stays as it is, and what it is given is what it was given before. A workflow
    is left alone when it has a node type that is not known, a node that looks at others by their
    ids, or a cycle.
    """
    whole = workflow.expanded()
    try:
        dead, duplicates = find_waste(whole, catalog)
    except CyclicWorkflow:
        return workflow, []
    if not dead and not duplicates:
        return workflow, []
    smaller = merge_nodes(without_nodes(whole, set(dead)), duplicates)
    return smaller, [
        *(_removed(whole.nodes[node_id]) for node_id in dead),
        *(_merged(whole.nodes[node_id], kept) for node_id, kept in duplicates.items()),
    ]


def find_waste(workflow: Workflow, catalog: NodeCatalog) -> tuple[list[str], dict[str, str]]:
    """Dead nodes, and among the others those that do again what another one does.

    None where it is not sure that nothing would be missed. Raises CyclicWorkflow.
    """
    types = [catalog.get(node.class_type) for node in workflow.nodes.values()]
    if any(each is None or looks_at_the_graph(each) for each in types):
        return [], {}
    is_output = _asks(catalog, lambda each: each.is_output)
    if not any(is_output(node) for node in workflow.nodes.values()):
        return [], {}
    dead = find_dead_nodes(workflow, is_output)
    alive = without_nodes(workflow, set(dead))
    return dead, find_duplicates(alive, _asks(catalog, may_merge))


def _asks(catalog: NodeCatalog, question: Callable[..., bool]) -> Callable[[Node], bool]:
    def ask(node: Node) -> bool:
        node_type = catalog.get(node.class_type)
        return node_type is not None and question(node_type)

    return ask


def _removed(node: Node) -> Optimization:
    text = f"Node '{node.id}' ({node.class_type}) was removed: no output needs it."
    return Optimization("removed_dead_node", node.id, text)


def _merged(node: Node, kept: str) -> Optimization:
    text = f"Node '{node.id}' ({node.class_type}) was merged into node '{kept}', its equal."
    return Optimization("merged_duplicate", node.id, text, kept)
