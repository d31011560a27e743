"""Run the one task that the environment holds: what the container of a Job does."""

import os
from collections.abc import Sequence
from pathlib import Path

import structlog

from comfyrail.engine.caching.faults import NotStorable
from comfyrail.engine.configuration import load_configuration
from comfyrail.engine.distributed.shared_results import (
    NotTaken,
    SharedResults,
    open_shared_results,
)
from comfyrail.engine.distributed.stored_messages import (
    message_of_text,
    reply_key,
    text_of_message,
)
from comfyrail.engine.distributed.task import UnreadableMessage, read_task, write_reply
from comfyrail.engine.distributed.worker_side import TaskWorker
from comfyrail.engine.server.node_sources import load_nodes

TASK_VARIABLE = "COMFYRAIL_TASK"
TASK_KEY_VARIABLE = "COMFYRAIL_TASK_KEY"
"""Has the key of a task in the shared cache, where the task is too large for the environment."""

log = structlog.get_logger(__name__)


def run_task_of_environment(config: Path, packs: Sequence[Path]) -> int:
    """Gives the exit code: 0 when there is a reply in the shared cache, also one that says that
    the node failed; 1 when there is none, and it is worth while to try again.

    Raises ConfigurationError.
    """
    results = open_shared_results(load_configuration(config).cache_config())
    worker = TaskWorker(load_nodes(None, (), packs).registry, results)
    try:
        task = read_task(_text_of_environment(results))
        reply = worker.carry_out(task)
        text = write_reply(reply).decode()
        results.publish(reply_key(task.id), message_of_text(text))
    except (UnreadableMessage, NotStorable, NotTaken) as error:
        log.error("task_without_reply", error=str(error))  # noqa: TRY400 - the reason says it all
        return 1
    finally:
        worker.close()
    return 0


def _text_of_environment(results: SharedResults) -> str:
    text = os.environ.get(TASK_VARIABLE)
    if text is None:
        text = text_of_message(results.get(os.environ.get(TASK_KEY_VARIABLE, "")))
    if text is None:
        raise UnreadableMessage(f"Neither {TASK_VARIABLE} nor {TASK_KEY_VARIABLE} has a task.")
    return text
