"""Several Celery workers on one machine: processes that are started again when they die."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import FrameType

import structlog

from comfyrail.engine.distributed.celery_worker import CeleryWorkerSettings

BROKER_VARIABLE = "COMFYRAIL_BROKER"
STOP_SECONDS = 30.0
FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 30.0
LIVED_WELL_SECONDS = 30.0
LOOK_SECONDS = 0.1

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Child:
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    pause: float = FIRST_PAUSE_SECONDS
    start_at: float = 0.0


def run_celery_workers(settings: CeleryWorkerSettings, count: int) -> int:
    """Keep `count` workers running until SIGTERM or SIGINT; then let each finish its node.

    They end with this process, however it ends. Gives the exit code.
    """
    stopping = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        del number, frame
        stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    command = _command(settings)
    environment = dict(os.environ)
    if settings.broker is not None:
        # Not as an argument: it may have a password in it, and all users see arguments.
        environment[BROKER_VARIABLE] = settings.broker
    children = [_Child() for _ in range(count)]
    try:
        while not stopping.is_set():
            for child in children:
                _keep_running(child, command, environment)
            stopping.wait(LOOK_SECONDS)
    finally:
        _end([child.process for child in children if child.process is not None])
    return 0


def _command(settings: CeleryWorkerSettings) -> list[str]:
    command = [sys.executable, "-m", "comfyrail", "celery-worker", "--exit-with-parent"]
    command += ["--config", str(settings.config)]
    for path in settings.nodes:
        command += ["--nodes", str(path)]
    return [*command, "--announce"] if settings.announce else command


def _keep_running(child: _Child, command: list[str], environment: Mapping[str, str]) -> None:
    now = time.monotonic()
    if child.process is not None:
        code = child.process.poll()
        if code is None:
            return
        _close_pipe(child.process)
        child.process = None
        if now - child.started > LIVED_WELL_SECONDS:
            child.pause = FIRST_PAUSE_SECONDS
        log.warning("task_worker_ended", exit_code=code, again_in=child.pause)
        child.start_at = now + child.pause
        child.pause = min(2 * child.pause, LONGEST_PAUSE_SECONDS)
    if now >= child.start_at:
        # In a group of its own: Ctrl-C in a terminal must reach it once, and through us.
        child.process = subprocess.Popen(  # noqa: S603 - our own program
            command, stdin=subprocess.PIPE, start_new_session=True, env=environment
        )
        child.started = now


def _end(processes: list[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        process.terminate()
    deadline = time.monotonic() + STOP_SECONDS
    for process in processes:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            log.warning("task_worker_killed", pid=process.pid)
            process.kill()
            process.wait()
        _close_pipe(process)


def _close_pipe(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()
