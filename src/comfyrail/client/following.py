"""Following an event stream through breaks of the line: every event once, in order."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Protocol, TypeVar

from comfyrail.client.errors import RequestFailed, ServerUnreachable
from comfyrail.client.event_stream import POSITION

RECONNECT_SECONDS = (0.2, 0.5, 1.0, 2.0, 5.0)
UNAVAILABLE = 503
OPEN = "open"
CLOSE = "close"

Item = TypeVar("Item")


class OpenStream(Protocol):
    """(event, data) pairs behind a number; None: from now on."""

    def __call__(self, after: int | None) -> AsyncIterator[tuple[str, str]]: ...


async def follow(
    open_stream: OpenStream,
    read: Callable[[str], Item],
    number_of: Callable[[Item], int],
    after: int | None,
    patience: float,
    broken: ServerUnreachable,
    *,
    is_patient_at_first: bool = True,
) -> AsyncIterator[Item]:
    """Items until the stream is closed; it is taken up again where it broke.

    `is_patient_at_first` False: a server that does not answer the first call is not waited for.
    `number_of` also reads where a stream has begun. Raises ServerUnreachable, `broken` where no
    other reason is known, when the line stays broken for longer than the patience.
    """
    now = asyncio.get_running_loop().time
    broken_at: float | None = None
    failures = 0
    was_open = False
    while True:
        problem: Exception = broken
        try:
            async for name, data in open_stream(after):
                broken_at, failures, was_open = None, 0, True
                if name == CLOSE:
                    return
                item = None if name == POSITION else read(data)
                number = int(data) if item is None else number_of(item)
                if item is None or name == OPEN:
                    after = number
                elif after is None or number > after:
                    after = number
                    yield item
        except ServerUnreachable as error:
            problem = error
        except RequestFailed as error:
            if error.status != UNAVAILABLE:
                raise
            problem = error
        broken_at = now() if broken_at is None else broken_at
        if now() - broken_at >= patience or not (was_open or is_patient_at_first):
            raise problem
        await asyncio.sleep(RECONNECT_SECONDS[min(failures, len(RECONNECT_SECONDS) - 1)])
        failures += 1
