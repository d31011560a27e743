"""Objects of node types that keep a state: one for each node id, as long as it is in use."""

from collections import OrderedDict

from comfyrail.engine.definition import NodeDefinition, NodeMethods

MOST_INSTANCES = 4096


class Instances:
    """The least recently used are let go. Owned by the thread that executes."""

    def __init__(self) -> None:
        self._made: OrderedDict[tuple[str, str, str], NodeMethods] = OrderedDict()

    def of(self, node_id: str, definition: NodeDefinition) -> NodeMethods:
        """The methods of a node: its own where its type keeps a state."""
        if definition.instantiate is None:
            return NodeMethods(definition.function, definition.check_lazy)
        key = (node_id, definition.name, definition.version)
        methods = self._made.get(key)
        if methods is None:
            methods = definition.instantiate()
            self._made[key] = methods
            if len(self._made) > MOST_INSTANCES:
                self._made.popitem(last=False)
        else:
            self._made.move_to_end(key)
        return methods

    def clear(self) -> None:
        self._made.clear()
