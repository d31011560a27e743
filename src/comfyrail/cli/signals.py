"""How signals end a command."""

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import Iterator

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def quiet_interrupts() -> Iterator[None]:
    """Ctrl-C ends the process without a word; for the imports, when nothing is under way."""
    is_ours = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
    if not is_ours:
        yield
        return
    signal.signal(signal.SIGINT, lambda number, _: os._exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


class Stopper:
    """Turns signals into the end of the task that made it.

    SIGTERM and SIGHUP end it at once, and so does Ctrl-C, except between `hold` and `let_go`: there
    the first Ctrl-C only sets `asked`, and the second ends the task.
    """

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.number: signal.Signals | None = None
        self._task = asyncio.current_task()
        self._is_held = False
        self._is_ending = False

    @property
    def exit_code(self) -> int | None:
        """Of a process that this signal ended, as shells say it."""
        return None if self.number is None else 128 + self.number

    def hold(self) -> None:
        self._is_held = True

    def let_go(self) -> None:
        """From here on Ctrl-C ends the task; one that was only asked for is done with."""
        self._is_held = False

    def end(self, number: signal.Signals) -> None:
        """End the task. Another time cuts short what it does to clean up."""
        if not self._is_ending:
            self._is_ending = True
            self.number = number
        if self._task is not None:
            self._task.cancel()

    def receive(self, number: signal.Signals) -> None:
        if number is signal.SIGINT and self._is_held and not self.asked.is_set():
            self.number = number
            self.asked.set()
        else:
            self.end(number)


@contextlib.contextmanager
def stop_on_signals() -> Iterator[Stopper]:
    """Catch what would end the process; a signal that is ignored (nohup) stays ignored."""
    loop = asyncio.get_running_loop()
    stopper = Stopper()
    caught = [each for each in _ENDING if signal.getsignal(each) is not signal.SIG_IGN]
    for each in caught:
        loop.add_signal_handler(each, stopper.receive, each)
    try:
        yield stopper
    finally:
        for each in caught:
            loop.remove_signal_handler(each)
