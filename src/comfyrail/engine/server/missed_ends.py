"""Ends of prompts whose client was not connected: told when it comes back."""

from collections import OrderedDict, deque
from collections.abc import Sequence

from comfyrail.engine.server.wire import Message

MOST_CLIENTS = 1_000
MOST_PROMPTS_OF_A_CLIENT = 64


class MissedEnds:
    """Bounded in both directions: the clients away longest and the oldest ends are forgotten."""

    def __init__(self) -> None:
        self._by_client: OrderedDict[str, deque[Sequence[Message]]] = OrderedDict()

    def keep(self, client_id: str, messages: Sequence[Message]) -> None:
        ends = self._by_client.setdefault(client_id, deque(maxlen=MOST_PROMPTS_OF_A_CLIENT))
        ends.append(messages)
        self._by_client.move_to_end(client_id)
        if len(self._by_client) > MOST_CLIENTS:
            self._by_client.popitem(last=False)

    def take(self, client_id: str) -> list[Message]:
        ends = self._by_client.pop(client_id, ())
        return [message for messages in ends for message in messages]
