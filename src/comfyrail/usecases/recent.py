"""What was read a moment ago, so that not every request asks the store."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from comfyrail.clock import Clock

Value = TypeVar("Value")


class Recent(Generic[Value]):
    """By name, for `seconds`, the last `most` of them. `forget` counts at once, for what is being
    read at that moment too.
    """

    def __init__(self, clock: Clock, seconds: float, most: int) -> None:
        self._clock = clock
        self._seconds = seconds
        self._most = most
        self._kept: OrderedDict[str, tuple[float, Value]] = OrderedDict()
        self._forgotten = 0

    def get(self, name: str) -> Value | None:
        found = self._kept.get(name)
        if found is None:
            return None
        read_at, value = found
        if self._clock.monotonic() - read_at > self._seconds:
            del self._kept[name]
            return None
        self._kept.move_to_end(name)
        return value

    async def fetch(
        self, name: str, read: Callable[[str], Awaitable[Value | None]]
    ) -> Value | None:
        """Read it anew; what is not there is not kept."""
        forgotten, read_at = self._forgotten, self._clock.monotonic()
        value = await read(name)
        if value is not None and forgotten == self._forgotten:
            self._kept[name] = (read_at, value)
            self._kept.move_to_end(name)
            if len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return value

    def forget(self) -> None:
        self._forgotten += 1
        self._kept.clear()
