"""What an earlier process of the server has told of an attempt that is taken over from it."""

from collections.abc import Sequence
from dataclasses import dataclass

from comfyrail.clock import Instant
from comfyrail.jobs.events import Event, EventType
from comfyrail.jobs.job import Attempt
from comfyrail.store.interface import Store

PAGE = 500

_SIGNS_OF_WORK = frozenset({EventType.NODE_STARTED, EventType.NODE_COMPLETED, EventType.PROGRESS})
_NODE_EVENTS = frozenset({EventType.NODE_STARTED, EventType.NODE_COMPLETED})


@dataclass(frozen=True, slots=True)
class Told:
    """`began`: when the worker was first seen at work on it; None when it was not."""

    node_events: Sequence[Event]
    began: Instant | None


async def told_of(store: Store, attempt: Attempt) -> Told:
    """Read the job's log from the start of this attempt on. Raises StoreUnavailable."""
    node_events: list[Event] = []
    began: Instant | None = None
    is_ours = False
    last = 0
    while page := await store.events_after(attempt.tenant, attempt.job_id, last, PAGE):
        for event in page:
            if event.type is EventType.STARTED:
                is_ours = event.data.get("attempt") == attempt.number
            elif is_ours and event.type in _SIGNS_OF_WORK:
                began = event.at if began is None else began
                if event.type in _NODE_EVENTS:
                    node_events.append(event)
        last = page[-1].number
    return Told(node_events, began)
