"""How a running execution is asked to stop: one object for each execution."""

import threading


class ExecutionHalted(BaseException):
    """Raised inside a node to unwind it after an interrupt.

    Not an `Exception`, so that a node that catches all exceptions cannot swallow it.
    """


class Interrupt:
    """Set from any thread, seen by the executor between nodes and at every progress report."""

    def __init__(self) -> None:
        self._requested = threading.Event()

    def request(self) -> None:
        self._requested.set()

    @property
    def requested(self) -> bool:
        return self._requested.is_set()

    def check(self) -> None:
        """Raise ExecutionHalted if an interrupt was requested."""
        if self._requested.is_set():
            raise ExecutionHalted

    def sleep(self, seconds: float) -> None:
        """Wait; raise ExecutionHalted as soon as an interrupt is requested."""
        if self._requested.wait(seconds):
            raise ExecutionHalted
