"""A worker that begins anew: the same process id and port, but nothing of what ran is left.

A node that waits in C cannot be stopped from inside of its process. The program is loaded anew in
its place instead (exec), which ends all threads. Prompts that wait and the ends of those that ran
are handed over in a file without a name, the listening sockets as they are: clients see their
connections drop, and new ones wait until the worker is back.
"""

import json
import multiprocessing
import os
import socket
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import structlog

from comfyrail.engine.descendants import end_all_descendants, reap_what_ended
from comfyrail.engine.server.history import HistoryEntry
from comfyrail.engine.server.prompt_queue import QueuedPrompt

log = structlog.get_logger(__name__)

VARIABLE = "COMFYRAIL_WORKER_HANDOVER"
"""In the environment from one life to the next: the numbers of the open files, as JSON."""


class HandedOver(msgspec.Struct, frozen=True):
    next_number: int
    waiting: list[QueuedPrompt]
    ended: list[tuple[str, HistoryEntry]]


@dataclass(frozen=True, slots=True)
class Received:
    """`state` is None where it could not be written or read."""

    listeners: Sequence[socket.socket]
    state: HandedOver | None


def can_begin_anew() -> bool:
    return hasattr(os, "fork") and bool(sys.executable) and len(sys.orig_argv) > 1


class AnewFrom:
    """Called with the state: loads the program anew, with the arguments it was started with.

    Returns only where that cannot be done.
    """

    def __init__(self, folder: Path, listeners: Sequence[socket.socket]) -> None:
        """`folder` is where it was started: paths among the arguments mean this one."""
        self._folder = folder
        self._listeners = listeners

    def __call__(self, state: HandedOver) -> None:
        # What ran must not go on in processes that it has started.
        for child in multiprocessing.active_children():
            child.kill()
        end_all_descendants()
        opened = _write(state)
        for listener in self._listeners:
            listener.set_inheritable(True)
        numbers = [listener.fileno() for listener in self._listeners]
        os.environ[VARIABLE] = json.dumps({"listeners": numbers, "state": opened})
        os.chdir(self._folder)
        sys.stdout.flush()
        sys.stderr.flush()
        try:
            os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - ourselves
        except OSError:
            log.exception("cannot_begin_anew", program=sys.executable)
            del os.environ[VARIABLE]


def receive_handover() -> Received | None:
    """What the last life of this process has left; None in its first one."""
    told = os.environ.pop(VARIABLE, None)
    if told is None:
        return None
    reap_what_ended()
    numbers = json.loads(told)
    listeners = [socket.socket(fileno=number) for number in numbers["listeners"]]
    for listener in listeners:
        listener.set_inheritable(False)
    return Received(listeners, _read(numbers["state"]))


def _write(state: HandedOver) -> int | None:
    try:
        with tempfile.TemporaryFile() as file:
            file.write(msgspec.msgpack.encode(state))
            file.seek(0)
            number = os.dup(file.fileno())
    except (OSError, TypeError, ValueError, msgspec.MsgspecError):
        # The worker must begin anew all the same; its clients find that it knows nothing.
        log.exception("handover_not_written")
        return None
    os.set_inheritable(number, True)
    return number


def _read(number: int | None) -> HandedOver | None:
    if number is None:
        return None
    try:
        with os.fdopen(number, "rb") as file:
            return msgspec.msgpack.decode(file.read(), type=HandedOver)
    except (OSError, msgspec.MsgspecError):
        log.exception("handover_not_read")
        return None
