"""The strategy `distributed`: nodes go elsewhere as tasks that carry keys, the rest runs here."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Collection
from typing import Protocol

import structlog

from comfyrail.engine.caching.result_cache import ResultCache
from comfyrail.engine.definition import NodeDefinition
from comfyrail.engine.distributed.remote_errors import error_of
from comfyrail.engine.distributed.remote_nodes import NodeMemory, RemoteNodes
from comfyrail.engine.distributed.task import RemoteTask, TaskReply, write_task
from comfyrail.engine.invoke import Invocation
from comfyrail.engine.live_graph import BoundNode
from comfyrail.engine.resources.figures import ResourceFigures
from comfyrail.engine.runners.interface import (
    KeptElsewhere,
    LostInputs,
    NodeTask,
    Outcome,
    RunHere,
    Runner,
    Value,
)

FLUSH_SECONDS = 120.0
MOST_KEYS_REMEMBERED = 100_000

log = structlog.get_logger(__name__)


class Transport(Protocol):
    """Gets a task to someone who carries it out, and the reply back."""

    largest_task: int
    """In bytes; nodes whose tasks are larger run here."""

    async def carry(self, task: RemoteTask, text: bytes, definition: NodeDefinition) -> TaskReply:
        """`text` is the task as JSON.

        Raises WorkerLost, NodeTimeout and ResourceError for what happened on the way, not what the
        node raised. When it is cancelled, nobody begins the task any more.
        """
        ...

    def close(self) -> None:
        """Let go of everything; called while no task is under way."""
        ...


class RemoteRunner:
    """Sends nodes through a transport. What may not be sent is given to `local`.

    A node that loses its inputs goes the way of the interface once (`LostInputs`); the second
    time it runs here, whatever the reason, so that it cannot go in circles: a value that cannot
    be stored, or that stands in for one of a node that failed, is never in the shared cache.
    """

    fuses = False

    def __init__(
        self,
        transport: Transport,
        cache: ResultCache,
        local: Runner,
        *,
        width: int,
        remote_types: Collection[str] = (),
    ) -> None:
        self.width = width
        self._transport = transport
        self._cache = cache
        self._local = local
        self.figures: Callable[[], ResourceFigures] | None = getattr(local, "figures", None)
        """What nodes that run here hold, where that is counted; from any thread."""
        self._nodes = RemoteNodes(remote_types)
        self._made_elsewhere: dict[str, None] = {}
        self._lost_before = NodeMemory()

    def is_remote(self, node: BoundNode) -> bool:
        return node in self._nodes

    def keep_here(self, node: BoundNode) -> None:
        self._nodes.keep_here(node)

    def start(self, task: NodeTask) -> Outcome | Awaitable[Outcome]:
        invocation = task.invocation
        if invocation is None:
            return self._send(task)
        if not _has_all_inputs(task.node, invocation):
            return _again_from_the_start()
        definition = invocation.definition
        if definition.is_cheap and not definition.is_async and definition.timeout is None:
            return invocation.run()
        return self._local.start(task)

    async def run_call(self, call: Callable[[], Value], definition: NodeDefinition) -> Value:
        return await self._local.run_call(call, definition)

    def close(self) -> None:
        self._transport.close()
        self._local.close()

    async def _send(self, task: NodeTask) -> Outcome:
        node = task.node
        remote = _task_of(task)
        try:
            text = write_task(remote)
        except UnicodeEncodeError as error:
            raise RunHere from error
        if len(text) > self._transport.largest_task:
            log.info("task_too_large", node_id=node.id, bytes=len(text))
            raise RunHere
        await self._show_sources(task)
        reply = await self._transport.carry(remote, text, node.definition)
        return await self._take(task, reply)

    async def _take(self, task: NodeTask, reply: TaskReply) -> Outcome:
        node = task.node
        match reply.status:
            case "done":
                self._lost_before.discard(node)
                self._remember_key(task.key)
                return KeptElsewhere(reply.ui, reply.seconds)
            case "lost":
                await self._on_lost(node, reply.lost)
                return await self._send(task)
            case "failed":
                raise error_of(reply)
            case "unstored":
                log.warning("result_not_stored", node_id=node.id, reason=reply.message)
            case _:
                log.info("node_type_stays_here", type=node.definition.name, reason=reply.message)
                self._nodes.keep_type_here(node.definition)
        raise RunHere

    async def _show_sources(self, task: NodeTask) -> None:
        """Before others look for them: values that were made here must be in the shared levels."""
        if all(key in self._made_elsewhere for key, _ in task.source_keys.values()):
            return
        if not self._cache.flush(0.0):
            await asyncio.to_thread(self._cache.flush, FLUSH_SECONDS)

    async def _on_lost(self, node: BoundNode, keys: Collection[str]) -> None:
        """Put inputs back that are still here. Raises LostInputs, or RunHere the second time."""
        for key in keys:
            self._made_elsewhere.pop(key, None)
        if node in self._lost_before:
            self._lost_before.discard(node)
            raise RunHere
        self._lost_before.add(node)
        gone = await asyncio.to_thread(self._put_back, keys)
        if gone:
            raise LostInputs(gone)

    def _put_back(self, keys: Collection[str]) -> list[str]:
        gone = []
        for key in keys:
            result = self._cache.get(key)
            if result is None:
                gone.append(key)
            else:
                self._cache.put(key, result)
        self._cache.flush(FLUSH_SECONDS)
        return gone

    def _remember_key(self, key: str) -> None:
        self._made_elsewhere[key] = None
        while len(self._made_elsewhere) > MOST_KEYS_REMEMBERED:
            del self._made_elsewhere[next(iter(self._made_elsewhere))]


def _has_all_inputs(node: BoundNode, invocation: Invocation) -> bool:
    given = invocation.inputs.keys()
    return node.links.keys() <= given and node.own_literals().keys() <= given


async def _again_from_the_start() -> Outcome:
    """For a node that was begun as one that goes elsewhere, and is to run here now: its values
    were not brought here. It may be another type in the place of one that failed elsewhere.
    """
    raise RunHere


def _task_of(task: NodeTask) -> RemoteTask:
    node = task.node
    return RemoteTask(
        id=secrets.token_hex(16),
        execution_id=task.execution_id,
        node_type=node.definition.name,
        version=node.definition.version,
        node_id=node.id,
        key=task.key,
        literals=dict(node.own_literals()),
        sources=dict(task.source_keys),
        timeout=node.definition.timeout,
    )
