"""The media process: `python -m comfyrail.results.media.process`.

It reads tasks from standard input, one a line, and ends when that ends. A file may be made to do
harm to whatever reads it: this process has little memory, little time, no secrets, and nobody
depends on it.
"""

import contextlib
import os
import queue
import resource
import signal
import sys
import threading
from collections.abc import Iterator
from typing import BinaryIO

from comfyrail.results.media.messages import READY, NoRoom, Refused, encode, read_task
from comfyrail.results.media.tasks import carry_out
from comfyrail.results.media.unusable import is_of_the_disk, reason_of

MEMORY_BYTES = 3 << 30
FILE_BYTES = 1 << 30
OPEN_FILES = 64
_LIMITS = {
    resource.RLIMIT_AS: MEMORY_BYTES,
    resource.RLIMIT_FSIZE: FILE_BYTES,
    resource.RLIMIT_NOFILE: OPEN_FILES,
    resource.RLIMIT_CORE: 0,
}


def main() -> None:
    """The argument: how much others come first, as with nice."""
    os.nice(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    answers = _take_standard_output()
    _limit_itself()
    answers.write(READY)
    answers.flush()
    for line in _lines():
        answers.write(_answer(line) + b"\n")
        answers.flush()


def _take_standard_output() -> BinaryIO:
    """Only answers go there: what libraries print goes nowhere."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    return answers


def _limit_itself() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: the server decides
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # that the write fails is enough
    for which, most in _LIMITS.items():
        _, hard = resource.getrlimit(which)
        allowed = most if hard == resource.RLIM_INFINITY else min(most, hard)
        with contextlib.suppress(OSError, ValueError):  # not every system has all of them
            resource.setrlimit(which, (allowed, allowed))


def _lines() -> Iterator[bytes]:
    """What comes on standard input. When that ends the server is gone, or wants no more: the
    process ends at once, whatever it is doing.
    """
    waiting: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def read() -> None:
        for line in sys.stdin.buffer:
            waiting.put(line)
        os._exit(0)

    threading.Thread(target=read, name="tasks", daemon=True).start()
    while True:
        yield waiting.get()


def _answer(line: bytes) -> bytes:
    task = read_task(line)
    _limit_time(task.seconds)
    try:
        return encode(carry_out(task))
    except Exception as error:  # noqa: BLE001 - a file can make a library raise anything
        if is_of_the_disk(error):
            return encode(NoRoom(number=error.errno or 0))
        return encode(Refused(reason=reason_of(error)))


def _limit_time(seconds: float) -> None:
    """The system ends the process when it has used so much more of the processor's time."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    limit = int(used.ru_utime + used.ru_stime + seconds) + 1
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (limit, hard))


if __name__ == "__main__":
    main()
