"""Places for nodes that have none: columns from left to right as values flow, linear in links."""

from collections.abc import Mapping, Sequence

from comfyrail.errors import CyclicWorkflow
from comfyrail.workflow.graph import Workflow

NODE_WIDTH = 300
COLUMN_GAP = 80
ROW_GAP = 60
TITLE_HEIGHT = 30

Point = tuple[int, int]


def ordered_ids(workflow: Workflow) -> Sequence[str]:
    """Ids in the order of execution; as they stand where a circle leaves no such order."""
    try:
        return workflow.order
    except CyclicWorkflow:
        return tuple(workflow.nodes)


def place_nodes(
    workflow: Workflow, order: Sequence[str], heights: Mapping[str, int]
) -> dict[str, Point]:
    """The upper left corner of every node: each right of all that feed it."""
    columns: dict[str, int] = {}
    for node_id in order:
        feeds = (edge.source for edge in workflow.nodes[node_id].edges())
        columns[node_id] = 1 + max((columns.get(each, 0) for each in feeds), default=0)
    bottoms: dict[int, int] = {}
    places: dict[str, Point] = {}
    for node_id in order:
        column = columns[node_id]
        top = bottoms.get(column, 0)
        places[node_id] = ((column - 1) * (NODE_WIDTH + COLUMN_GAP), top)
        bottoms[column] = top + heights[node_id] + TITLE_HEIGHT + ROW_GAP
    return places
