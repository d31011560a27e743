"""How a running execution is asked to stop: one object for each execution."""

import threading
from collections.abc import Callable

from comfyrail.engine.running_calls import RunningCalls


class ExecutionHalted(BaseException):
    """Raised inside a node to unwind it after an interrupt.

    Not an `Exception`, so that a node that catches all exceptions cannot swallow it.
    """


class Interrupt:
    """Set from any thread, seen by the executor between nodes and at every progress report."""

    def __init__(self) -> None:
        self._requested = threading.Event()
        self._lock = threading.Lock()
        self._listener: Callable[[], None] | None = None
        self.calls = RunningCalls(ExecutionHalted)
        """The node functions that run on its behalf."""

    def request(self) -> None:
        with self._lock:
            self._requested.set()
            listener = self._listener
        if listener is not None:
            listener()

    def insist(self) -> None:
        """Break off the nodes that have not seen the request; from any other thread."""
        if self._requested.is_set():
            self.calls.break_off()

    def listen(self, listener: Callable[[], None] | None) -> None:
        """Call this when an interrupt is requested, from that thread; at once if it was before."""
        with self._lock:
            self._listener = listener
            missed = self._requested.is_set()
        if missed and listener is not None:
            listener()

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
