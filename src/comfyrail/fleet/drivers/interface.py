"""What a driver must offer for each of its workers."""

from typing import Protocol


class WorkerHost(Protocol):
    """The place where one worker lives."""

    driver: str

    async def start(self) -> str:
        """Make sure that the worker exists; return its URL. Raises WorkerUnreachable.

        Called again after `wait_ended` returned: it may then be another URL.
        """
        ...

    async def wait_ended(self) -> str:
        """Return, with the cause, when the worker is known to have ended; maybe never."""
        ...

    async def stop(self) -> None:
        """End the worker if it is ours to end."""
        ...
