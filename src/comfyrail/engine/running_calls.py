"""Calls of nodes that are under way, so that one that does not look up can be broken off.

An exception is raised inside of the thread that runs the call, at its next step in Python. What
waits in C (a sleep, a long computation of a library) does not see it before it returns. Processes
that the call's own thread has started during the call are killed: it may wait for one of them.
"""

import ctypes
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from comfyrail.engine.descendants import (
    end_with_descendants,
    reap,
    started_by_thread,
    ticks_now,
)

ARRIVAL_SECONDS = 0.1
_raise_in_thread = ctypes.pythonapi.PyThreadState_SetAsyncExc


class _Call:
    __slots__ = ("began", "is_broken_off", "is_under_way", "native_thread", "thread")

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.native_thread = threading.get_native_id()
        self.began = ticks_now()
        self.is_under_way = True
        self.is_broken_off = False

    def end_processes(self) -> list[int]:
        started = started_by_thread(self.native_thread, self.began)
        end_with_descendants(started)
        return started


class RunningCalls:
    """Of one execution; in any threads. There are no locks: an exception that comes from outside
    could strike while one is held.
    """

    def __init__(self, error: type[BaseException]) -> None:
        """`error` is what is raised in a call that is broken off."""
        self._error = error
        self._calls: set[_Call] = set()

    def run(
        self, function: Callable[..., Any], given: Mapping[str, Any], fixed: Mapping[str, Any]
    ) -> Any:
        """Call the function. Raises what it raises, and the error when it is broken off."""
        call = _Call()
        self._calls.add(call)
        try:
            return function(**given, **fixed)
        finally:
            # First this, then the question: whoever breaks off asks and tells in the other order,
            # so that one of both sees the other, and the exception never strikes after this call.
            call.is_under_way = False
            self._calls.discard(call)
            if call.is_broken_off:
                try:
                    _let_it_arrive()
                finally:
                    reap(call.end_processes())

    def break_off(self) -> None:
        """Raise the error in every call that is under way; from any other thread."""
        for call in list(self._calls):
            call.is_broken_off = True
            if call.is_under_way:
                _raise_in_thread(ctypes.c_ulong(call.thread), ctypes.py_object(self._error))
                if call.is_under_way:
                    call.end_processes()


def _let_it_arrive() -> None:
    """Give an exception that may be on its way to this thread the time to come, here."""
    deadline = time.monotonic() + ARRIVAL_SECONDS
    while time.monotonic() < deadline:
        time.sleep(0.001)
    _raise_in_thread(ctypes.c_ulong(threading.get_ident()), None)
