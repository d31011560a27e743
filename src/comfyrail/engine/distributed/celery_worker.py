"""A Celery worker that runs nodes: one process for one node at a time."""

import json
import logging
import os
import signal
import socket
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog
from celery import signals
from celery.exceptions import CPendingDeprecationWarning, SecurityWarning

from comfyrail.engine.configuration import load_configuration
from comfyrail.engine.distributed.celery_app import TASK_NAME, make_app
from comfyrail.engine.distributed.celery_desk import TaskDesk
from comfyrail.engine.distributed.celery_names import is_token
from comfyrail.engine.distributed.task import UnreadableMessage, read_task, write_reply
from comfyrail.engine.distributed.worker_parts import open_task_worker
from comfyrail.engine.distributed.worker_side import TaskWorker
from comfyrail.errors import ConfigurationError
from comfyrail.process import call_when_parent_ends

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class CeleryWorkerSettings:
    """How a worker is started. `broker` takes the place of the configuration's.

    `announce` prints one line of JSON when the worker takes tasks. `exit_with_parent` ends the
    process when its standard input ends.
    """

    config: Path
    broker: str | None = None
    nodes: Sequence[Path] = ()
    announce: bool = False
    exit_with_parent: bool = False


def run_celery_worker(settings: CeleryWorkerSettings) -> int:
    """Run nodes until SIGTERM or SIGINT; the node that runs then is finished first.

    The pool is Celery's `solo`: the node runs in the main thread of this process, nothing is
    forked, and the next task is taken when the last one is handed in. Gives the exit code.
    Raises ConfigurationError.
    """
    configuration = load_configuration(settings.config)
    section = configuration.execution.distributed
    broker_url = settings.broker or section.broker_url
    try:
        desk = TaskDesk(broker_url, section.lease_seconds)
    except ValueError as error:
        raise ConfigurationError(f"The broker's URL cannot be used: {error}") from error
    worker = open_task_worker(configuration, settings.nodes)
    app = make_app(broker_url, section.queue)
    _register(app, worker, desk)
    if settings.exit_with_parent:
        call_when_parent_ends(_stop)
    try:
        return _serve(app, section.queue, announce=settings.announce)
    finally:
        desk.close()
        worker.close()


def _register(app: Any, worker: TaskWorker, desk: TaskDesk) -> None:
    def run_node(text: str, coordinator: str) -> None:
        handle(worker, desk, text, coordinator)

    app.task(run_node, name=TASK_NAME, ignore_result=True, acks_late=True)


def handle(worker: TaskWorker, desk: TaskDesk, text: str, coordinator: str) -> None:
    """Carry out one message."""
    try:
        task = read_task(text)
    except UnreadableMessage as error:
        log.warning("task_unreadable", error=str(error))
        return
    if not is_token(coordinator):
        log.warning("task_unreadable", error="It does not say who waits for it.")
        return
    taken = desk.take(task.id, coordinator)
    if taken is not None:
        # The lease of a task is given to one worker, and the coordinator alone has the key.
        reply = worker.carry_out(task, is_only_copy=True)
        desk.hand_in(taken, write_reply(reply))


def _serve(app: Any, queue: str, *, announce: bool) -> int:
    def say_ready(**_: Any) -> None:
        log.info("task_worker_ready", queue=queue)
        if announce:
            line = {"event": "ready", "queue": queue, "pid": os.getpid()}
            sys.stdout.write(json.dumps(line) + "\n")
            sys.stdout.flush()

    def leave_logs_alone(**_: Any) -> None:
        """Celery sets up no logs of its own when somebody listens here."""

    signals.worker_ready.connect(say_ready)
    signals.setup_logging.connect(leave_logs_alone)
    # In a container there is often nobody but root; pickle, the reason to warn, is not accepted.
    warnings.filterwarnings("ignore", category=SecurityWarning)
    warnings.filterwarnings("ignore", category=CPendingDeprecationWarning)
    worker = app.Worker(
        hostname=f"{queue}-{os.getpid()}@{socket.gethostname()}",
        queues=[queue],
        pool="solo",
        concurrency=1,
        optimization="fair",
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
        quiet=True,
        loglevel=logging.WARNING,
    )
    worker.start()
    return int(worker.exitcode or 0)


def _stop() -> None:
    os.kill(os.getpid(), signal.SIGTERM)
