"""A report as folded stacks: one line for each path of node types, with its microseconds."""

from collections import Counter
from typing import TYPE_CHECKING

from comfyrail.engine.monitoring.labels import clean_label
from comfyrail.engine.profiling.node_profile import NodeProfile

if TYPE_CHECKING:
    from comfyrail.engine.profiling.report import ProfileReport

ROOT = "execute_graph"
DEEPEST = 100


def fold(report: "ProfileReport") -> str:
    """A node that another put in is above it; the time of a stack is that of its last node alone.

    Of a very deep nesting the middle is left out.
    """
    nodes = {node.node_id: node for node in report.nodes}
    totals: Counter[str] = Counter()
    for node in report.nodes:
        microseconds = round(node.seconds * 1e6)
        if microseconds:
            totals[_stack(node, nodes)] += microseconds
    return "".join(f"{stack} {total}\n" for stack, total in sorted(totals.items()))


def _stack(node: NodeProfile, nodes: dict[str, NodeProfile]) -> str:
    frames = [_frame(node)]
    while node.parent_id in nodes and len(frames) < DEEPEST:
        node = nodes[node.parent_id]
        frames.append(_frame(node))
    return ";".join([ROOT, *reversed(frames)])


def _frame(node: NodeProfile) -> str:
    """A type without what separates frames and counts."""
    return clean_label(node.node_type).replace(";", ":").replace(" ", "_") or "?"
