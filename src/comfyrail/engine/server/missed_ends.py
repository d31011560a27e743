"""Ends of prompts whose client was not connected: told when it comes back."""

from collections import OrderedDict, deque
from collections.abc import Sequence

from comfyrail.engine.server.wire import Message

MOST_CLIENTS = 1_000
MOST_PROMPTS_OF_A_CLIENT = 64
MOST_BYTES = 64 << 20


class MissedEnds:
    """Bounded in every direction: the clients away longest and the oldest ends are forgotten."""

    def __init__(self) -> None:
        self._by_client: OrderedDict[str, deque[Sequence[Message]]] = OrderedDict()
        self.used_bytes = 0

    def keep(self, client_id: str, messages: Sequence[Message]) -> None:
        ends = self._by_client.setdefault(client_id, deque())
        ends.append(messages)
        self.used_bytes += _size_of(messages)
        self._by_client.move_to_end(client_id)
        if len(ends) > MOST_PROMPTS_OF_A_CLIENT:
            self.used_bytes -= _size_of(ends.popleft())
        while len(self._by_client) > MOST_CLIENTS or self.used_bytes > MOST_BYTES:
            self.take(next(iter(self._by_client)))

    def take(self, client_id: str) -> list[Message]:
        ends = self._by_client.pop(client_id, ())
        self.used_bytes -= sum(map(_size_of, ends))
        return [message for messages in ends for message in messages]


def _size_of(messages: Sequence[Message]) -> int:
    return sum(message.size for message in messages)
