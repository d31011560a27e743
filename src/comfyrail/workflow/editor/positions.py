"""Where nodes stand in the editor, as a saved graph tells it."""

from collections.abc import Iterable, Mapping
from typing import Any

from comfyrail.workflow.editor.model import EditorGraph
from comfyrail.workflow.editor.scopes import Scope
from comfyrail.workflow.graph import Area

FARTHEST = 10_000_000
USUAL_SIZE = (210, 100)


def read_area(entry: Mapping[str, Any]) -> Area | None:
    """The place and size of a node; None where it has no place that makes sense."""
    place = _pair(entry.get("pos"))
    if place is None:
        return None
    width, height = _pair(entry.get("size")) or USUAL_SIZE
    return (*place, max(0, width), max(0, height))


def places_in_root(ids: Mapping[tuple[Scope, str], str]) -> dict[str, Area]:
    """Areas by the ids of the workflow, all on one plane.

    What is inside a subgraph stands where the node is that stands for it, as the editor unpacks
    one: its upper left corner there.
    """
    shifts = _Shifts()
    areas: dict[str, Area] = {}
    for (scope, node_id), chosen in ids.items():
        area, shift = scope.graph.nodes[node_id].area, shifts.of(scope)
        if area is not None and shift is not None:
            x, y, width, height = area
            areas[chosen] = (x + shift[0], y + shift[1], width, height)
    return areas


class _Shifts:
    """How far the insides of scopes are moved; None where nobody knows where to."""

    def __init__(self) -> None:
        self._known: dict[Scope, tuple[int, int] | None] = {}
        self._corners: dict[str, tuple[int, int]] = {}

    def of(self, scope: Scope) -> tuple[int, int] | None:
        # Scopes nest at most as deeply as NESTING_LIMIT.
        if scope not in self._known:
            self._known[scope] = self._find(scope)
        return self._known[scope]

    def _find(self, scope: Scope) -> tuple[int, int] | None:
        if scope.parent is None or scope.instance is None:
            return (0, 0)
        outer, area = self.of(scope.parent), scope.instance.area
        if outer is None or area is None:
            return None
        corner = self._corner(scope.graph)
        return (outer[0] + area[0] - corner[0], outer[1] + area[1] - corner[1])

    def _corner(self, graph: EditorGraph) -> tuple[int, int]:
        known = self._corners.get(graph.id)
        if known is None:
            areas = [node.area for node in graph.nodes.values() if node.area is not None]
            known = self._corners[graph.id] = (
                _least(area[0] for area in areas),
                _least(area[1] for area in areas),
            )
        return known


def _least(numbers: Iterable[int]) -> int:
    return min(numbers, default=0)


def _pair(value: object) -> tuple[int, int] | None:
    """Two numbers: a list, or as older files have it an object with the names 0 and 1."""
    if isinstance(value, Mapping):
        value = [value.get("0"), value.get("1")]
    if not isinstance(value, list) or len(value) < 2:
        return None
    first, second = _whole(value[0]), _whole(value[1])
    return None if first is None or second is None else (first, second)


def _whole(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return round(value) if abs(value) <= FARTHEST else None
