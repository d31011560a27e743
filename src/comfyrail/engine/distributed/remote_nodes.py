"""Which nodes may run elsewhere."""

from collections.abc import Collection

from comfyrail.engine.definition import NodeDefinition
from comfyrail.engine.distributed.plain_data import is_plain
from comfyrail.engine.live_graph import BoundNode

BUILT_IN = "comfyrail"
PACKS = "custom_nodes."
MOST_REMEMBERED = 4096


class RemoteNodes:
    """Decides for one runner. Owned by the thread that executes."""

    def __init__(self, remote_types: Collection[str]) -> None:
        """`remote_types` may go elsewhere although they count as local."""
        self._remote_types = frozenset(remote_types)
        self._types: dict[tuple[str, str], bool] = {}
        self._types_here: set[str] = set()
        self._here = NodeMemory()

    def __contains__(self, node: BoundNode) -> bool:
        return (
            node.definition.name not in self._types_here
            and node not in self._here
            and self._may_send(node.definition)
            and is_plain(dict(node.own_literals()))
        )

    def keep_type_here(self, definition: NodeDefinition) -> None:
        """It has proved to be one that cannot be sent."""
        self._types_here.add(definition.name)

    def keep_here(self, node: BoundNode) -> None:
        """Let a node of an execution run here from now on."""
        self._here.add(node)

    def _may_send(self, definition: NodeDefinition) -> bool:
        kind = (definition.name, definition.version)
        answer = self._types.get(kind)
        if answer is None:
            is_local = definition.is_local and definition.name not in self._remote_types
            answer = not is_local and is_sendable(definition)
            if len(self._types) >= MOST_REMEMBERED:
                self._types.clear()
            self._types[kind] = answer
        return answer


def is_sendable(definition: NodeDefinition) -> bool:
    """Whether keys and literals are all that a node of this type needs, and all it gives is its
    result: no context, nothing hidden but its id, no lazy inputs, no nodes in its place.
    """
    return (
        definition.keeps
        and not definition.is_output
        and not definition.is_cheap
        and not definition.takes_context
        and not definition.expands
        and not definition.lazy_inputs
        and not definition.raw_links
        and set(definition.hidden.values()) <= {"UNIQUE_ID"}
        and _is_known_elsewhere(definition)
        and not _asks_for_inputs(definition)
    )


def _is_known_elsewhere(definition: NodeDefinition) -> bool:
    """Whether others can load it: it is built in, or comes of a pack that they may have too.

    Whether they have it in this version they say themselves.
    """
    if definition.python_module.startswith(PACKS):
        return True
    module = str(getattr(definition.function, "__module__", ""))
    return definition.python_module == BUILT_IN and module.partition(".")[0] == BUILT_IN


def _asks_for_inputs(definition: NodeDefinition) -> bool:
    """Whether an object of the type wants to be asked which inputs it needs."""
    if definition.check_lazy is not None:
        return True
    if definition.instantiate is None:
        return False
    try:
        return definition.instantiate().check_lazy is not None
    except Exception:  # noqa: BLE001 - a foreign class; it will show its fault when it runs
        return True


class NodeMemory:
    """Some nodes of graphs, each as the object that it is; the oldest are forgotten."""

    def __init__(self) -> None:
        # It holds the nodes themselves, so that the number of one is not given to another.
        self._nodes: dict[int, BoundNode] = {}

    def __contains__(self, node: BoundNode) -> bool:
        return self._nodes.get(id(node)) is node

    def add(self, node: BoundNode) -> None:
        self._nodes[id(node)] = node
        while len(self._nodes) > MOST_REMEMBERED:
            del self._nodes[next(iter(self._nodes))]

    def discard(self, node: BoundNode) -> None:
        self._nodes.pop(id(node), None)
