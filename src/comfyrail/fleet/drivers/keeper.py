"""Runs a program that must not outlive its parent. A process of its own, started by the driver
`process` as `python -I -S keeper.py LOCK LOG GRACE COMMAND…`; it needs the standard library alone.

- The program ends when the keeper's standard input ends, as it does when the server is gone,
  however that came about; and when the keeper gets SIGTERM. Its whole process group ends with it:
  first asked, then killed.
- On Linux the program is killed with the keeper, even when that one is killed.
- While it lives a lock is held: the next server sees that an earlier one's program is still ending.
- What the program prints goes to a log of bounded size, with one older file beside it.
"""

import contextlib
import ctypes
import fcntl
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO

LOG_LIMIT_BYTES = 4 << 20
OLDER = ".1"
LOCK_LIMIT_SECONDS = 20.0
TICK_SECONDS = 0.1
IN_USE = 75
"""Exit code: another keeper has the lock."""
CANNOT_RUN = 127

_PR_SET_PDEATHSIG = 1


class _Log:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("ab")

    def write(self, content: bytes) -> None:
        # A full disk must not end the program.
        with contextlib.suppress(OSError):
            self._file.write(content)
            self._file.flush()
            if self._file.tell() > LOG_LIMIT_BYTES:
                self._file.close()
                self._path.replace(f"{self._path}{OLDER}")
                self._file = self._path.open("ab")


class _Keeper:
    def __init__(self, program: "subprocess.Popen[bytes]", log: _Log, grace: float) -> None:
        self._program = program
        self._grace = grace
        self._log = log
        self._must_end = False
        self._kill_at: float | None = None

    def end_soon(self, *_: object) -> None:
        self._must_end = True

    def run(self) -> int:
        """Until the program has ended; its exit code, or 128 and the signal's number."""
        output = self._program.stdout
        assert output is not None  # noqa: S101 - it was asked for
        with selectors.DefaultSelector() as selector:
            selector.register(sys.stdin.fileno(), selectors.EVENT_READ)
            selector.register(output.fileno(), selectors.EVENT_READ)
            while not self._has_ended():
                for key, _ in selector.select(TICK_SECONDS):
                    content = _read(key.fd)
                    if key.fd == output.fileno():
                        self._log.write(content)
                    if not content:
                        selector.unregister(key.fd)
                        self._must_end = self._must_end or key.fd == sys.stdin.fileno()
                self._end_if_told()
        self._signal_group(signal.SIGKILL)
        self._log_rest(output)
        code = self._program.wait()
        return code if code >= 0 else 128 - code

    def _has_ended(self) -> bool:
        """Not reaped yet: its number must not be given to another while its group is signalled."""
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self._program.pid, flags) is not None

    def _end_if_told(self) -> None:
        if not self._must_end:
            return
        if self._kill_at is None:
            self._kill_at = time.monotonic() + self._grace
            self._signal_group(signal.SIGTERM)
            # One that is suspended does not see the other signal.
            self._signal_group(signal.SIGCONT)
        elif time.monotonic() > self._kill_at:
            self._signal_group(signal.SIGKILL)

    def _signal_group(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._program.pid, number)

    def _log_rest(self, output: IO[bytes]) -> None:
        os.set_blocking(output.fileno(), False)
        with contextlib.suppress(BlockingIOError):
            while content := os.read(output.fileno(), 1 << 16):
                self._log.write(content)


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 1 << 16)
    except OSError:
        return b""


def _die_with_parent() -> None:
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _take_lock(path: Path) -> int | None:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    deadline = time.monotonic() + LOCK_LIMIT_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                return None
            time.sleep(TICK_SECONDS)
        else:
            return descriptor


def main(arguments: Sequence[str]) -> int:
    lock_path, log_path, grace, *command = arguments
    log = _Log(Path(log_path))
    if _take_lock(Path(lock_path)) is None:
        log.write(b"An earlier process of this worker has not ended.\n")
        return IN_USE
    try:
        program = subprocess.Popen(  # noqa: S603 - the command is the operator's own
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_die_with_parent,  # noqa: PLW1509 - there is only one thread here
        )
    except OSError as error:
        log.write(f"{command[0]}: {error.strerror}\n".encode())
        return CANNOT_RUN
    keeper = _Keeper(program, log, float(grace))
    signal.signal(signal.SIGTERM, keeper.end_soon)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.stdout.write(f"{program.pid}\n")
    sys.stdout.flush()
    return keeper.run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
