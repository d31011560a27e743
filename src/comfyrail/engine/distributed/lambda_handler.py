"""The entry point of a function in AWS Lambda; its name there is
`comfyrail.engine.distributed.lambda_handler.handle`.

`COMFYRAIL_CONFIG` names the engine's configuration, which says where the shared cache is, and
`COMFYRAIL_NODES` the packs to load. It was not tried on AWS.
"""

from typing import Any, Protocol

import msgspec

from comfyrail.engine.distributed.task import RemoteTask, read_task_object
from comfyrail.engine.distributed.worker_parts import (
    configuration_of_environment,
    open_task_worker,
    packs_of_environment,
)
from comfyrail.engine.distributed.worker_side import TaskWorker

SPARED_SECONDS = 2.0
"""Of the time that the function may run: to answer in."""


class LambdaContext(Protocol):
    """What Lambda tells a function about its run, as far as it is used here."""

    def get_remaining_time_in_millis(self) -> int: ...


_kept: list[TaskWorker] = []


def handle(event: Any, context: LambdaContext | None = None) -> dict[str, Any]:
    """Carry out the task that an invocation brings, and give the reply to it.

    Raises UnreadableMessage for what is no task, and ConfigurationError.
    """
    task = _within_the_time_left(read_task_object(event), context)
    if not _kept:
        # Kept for the next invocation: Lambda runs one at a time in a process.
        _kept.append(open_task_worker(configuration_of_environment(), packs_of_environment()))
    worker = _kept[0]
    reply = worker.carry_out(task)
    # Between invocations nothing runs, so nothing may be left to do.
    worker.flush()
    answer: dict[str, Any] = msgspec.to_builtins(reply)
    return answer


def _within_the_time_left(task: RemoteTask, context: LambdaContext | None) -> RemoteTask:
    """End the node before Lambda ends the function, so that there is an answer."""
    if context is None:
        return task
    left = max(0.1, context.get_remaining_time_in_millis() / 1000 - SPARED_SECONDS)
    limit = left if task.timeout is None else min(left, task.timeout)
    return msgspec.structs.replace(task, timeout=limit)
