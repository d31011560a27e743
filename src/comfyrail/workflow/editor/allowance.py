"""How large the result of a conversion may become."""

from collections.abc import Mapping
from typing import Any

from comfyrail.errors import MalformedWorkflow
from comfyrail.workflow.graph import is_link

SIZE_LIMIT = 32 << 20
"""Characters, written out as JSON, about."""
VALUE_SIZE = 4


class Allowance:
    """Counts what is made. One text of a file may be sent in any number of places."""

    def __init__(self, limit: int = SIZE_LIMIT) -> None:
        self._limit = limit
        self._left = limit
        # The values are kept, so that their addresses are theirs alone.
        self._known: dict[int, tuple[object, int]] = {}

    def spend(self, size: int) -> None:
        """Raises MalformedWorkflow where this is more than is left."""
        self._left -= VALUE_SIZE + size
        if self._left < 0:
            raise MalformedWorkflow(
                f"Converted, the workflow would have more than {self._limit >> 20} million "
                "characters: a text counts for every place that it goes to.",
                details={"path": ""},
            )

    def spend_value(self, value: Any) -> None:
        """Pay for a value that is sent."""
        self.spend(len(value[0]) if is_link(value) else self._size_of(value))

    def _size_of(self, value: Any) -> int:
        """What is long is measured once, also within the small wrapper that a list is sent in."""
        if not isinstance(value, dict | list):
            return len(value) if isinstance(value, str) else 0
        known = self._known.get(id(value))
        if known is None:
            if isinstance(value, dict) and len(value) <= 2:
                size = sum(len(name) + self._size_of(each) for name, each in value.items())
            else:
                size = _measured(value)
            known = self._known[id(value)] = (value, size)
        return known[1]


def _measured(value: Any) -> int:
    size = 0
    waiting = [value]
    while waiting:
        each = waiting.pop()
        size += VALUE_SIZE
        if isinstance(each, str):
            size += len(each)
        elif isinstance(each, Mapping):
            size += sum(map(len, each))
            waiting.extend(each.values())
        elif isinstance(each, list):
            waiting.extend(each)
    return size
