"""Processes that this one has started, directly or not: found in /proc, and ended.

A number may by now be another process's: one counts only with the same time of birth. Where there
is no /proc nothing is found.
"""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from multiprocessing import resource_tracker
from pathlib import Path

MOST_ROUNDS = 50
REAP_SECONDS = 0.2
_PROC = Path("/proc")
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_BOOT_CLOCK: int | None = getattr(time, "CLOCK_BOOTTIME", None)


@dataclass(frozen=True, slots=True)
class SeenProcess:
    """`born` is in clock ticks since the machine has started."""

    pid: int
    parent: int
    session: int
    born: int


def ticks_now() -> int:
    """The time in the unit of `born`."""
    return 0 if _BOOT_CLOCK is None else int(time.clock_gettime(_BOOT_CLOCK) * _TICKS_PER_SECOND)


def end_all_descendants() -> None:
    """Kill whatever this process has started, and what those have started, also where the ones
    between have ended already, as long as it is in the session that this process leads.
    """
    if not _PROC.is_dir():
        return
    own = os.getpid()
    leads = os.getsid(0) == own

    def is_root(process: SeenProcess) -> bool:
        return process.parent == own or (leads and process.session == own)

    _end(is_root)


def end_with_descendants(pids: Iterable[int]) -> None:
    """Kill these processes and what they have started."""
    roots = frozenset(pids)
    if roots:
        _end(lambda process: process.pid in roots)


def started_by_thread(native_id: int, since: int) -> list[int]:
    """Children of this process that the thread has started from that tick on and that are still
    to be waited for.
    """
    try:
        listed = (_PROC / "self" / "task" / str(native_id) / "children").read_text().split()
    except OSError:
        return []
    seen = (_see(int(word)) for word in listed)
    return [process.pid for process in seen if process is not None and process.born >= since]


def reap(pids: Iterable[int]) -> None:
    """Ask for the end of children that were killed, so that nothing is left of them."""
    deadline = time.monotonic() + REAP_SECONDS
    for pid in pids:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(pid, os.WNOHANG) == (0, 0) and time.monotonic() < deadline:
                time.sleep(0.001)


def reap_what_ended() -> None:
    """The same for all children, where no other part of the program has any."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            continue


def _end(is_root: Callable[[SeenProcess], bool]) -> None:
    """All are held before any is killed: the children of one that ends are nobody's, and one that
    goes on can start others meanwhile.
    """
    held: set[SeenProcess] = set()
    for _ in range(MOST_ROUNDS):
        found = _family(is_root) - held
        if not found:
            break
        for process in found:
            _signal(process, signal.SIGSTOP)
        held |= found
    for process in held:
        _signal(process, signal.SIGKILL)


def _family(is_root: Callable[[SeenProcess], bool]) -> set[SeenProcess]:
    spared = {os.getpid(), getattr(getattr(resource_tracker, "_resource_tracker", None), "_pid", 0)}
    children: dict[int, list[SeenProcess]] = {}
    waiting: list[SeenProcess] = []
    for process in _all_processes():
        children.setdefault(process.parent, []).append(process)
        if is_root(process):
            waiting.append(process)
    found: set[SeenProcess] = set()
    while waiting:
        process = waiting.pop()
        # multiprocessing's own helper cleans up after the others, and ends when all have ended.
        if process not in found and process.pid not in spared:
            found.add(process)
            waiting.extend(children.get(process.pid, ()))
    return found


def _all_processes() -> list[SeenProcess]:
    try:
        names = [path.name for path in _PROC.iterdir()]
    except OSError:
        return []
    seen = (_see(int(name)) for name in names if name.isdigit())
    return [process for process in seen if process is not None]


def _see(pid: int) -> SeenProcess | None:
    """None where there is no such process."""
    try:
        text = (_PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return None
    # The name before it is in parentheses, and may have any in itself.
    fields = text.rpartition(b")")[2].split()
    return SeenProcess(pid, int(fields[1]), int(fields[3]), int(fields[19]))


def _signal(process: SeenProcess, number: signal.Signals) -> None:
    now = _see(process.pid)
    if now is not None and now.born == process.born:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process.pid, number)
