"""What travels between a coordinator and whoever runs a node for it: keys, never values."""

from typing import Annotated, Any, Literal

import msgspec

from comfyrail.engine.events import ErrorKind

LARGEST_TASK = 16 << 20
LARGEST_REPLY = 4 << 20
LONGEST_MESSAGE = 20_000
MOST_TRACE_LINES = 64

Key = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
TaskId = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")]

Status = Literal["done", "lost", "unstorable", "unstored", "unknown", "failed"]


class UnreadableMessage(Exception):
    """Not a task, or not a reply, of this version."""


class RemoteTask(msgspec.Struct, frozen=True):
    """One node that is to run elsewhere: inputs are literals, or slots of results under keys."""

    id: TaskId
    execution_id: str
    node_type: str
    version: str
    node_id: str
    key: Key
    """Where its result belongs."""
    literals: dict[str, Any]
    sources: dict[str, tuple[Key, int]]
    timeout: float | None = None
    """Seconds that the node may run, not counting those that the task waits."""


class TaskReply(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a task ended.

    - `done`: the result is in the shared cache under the task's key.
    - `lost`: inputs are not in the shared cache; `lost` has their keys.
    - `unstorable`: the result has no form to be sent in, and will not have one next time.
    - `unstored`: the shared cache did not take this result.
    - `unknown`: there is no such node type here, or another version of it.
    - `failed`: the node raised.
    """

    id: TaskId
    status: Status
    ui: dict[str, list[Any]] | None = None
    seconds: float = 0.0
    lost: tuple[Key, ...] = ()
    message: str = ""
    error_type: str = ""
    kind: ErrorKind = "runtime"
    recoverable: bool = False
    trace: tuple[str, ...] = ()


_write = msgspec.json.Encoder().encode
_read_task = msgspec.json.Decoder(RemoteTask).decode
_read_reply = msgspec.json.Decoder(TaskReply).decode


def write_task(task: RemoteTask) -> bytes:
    """As JSON; the literals must be plain data. Raises UnicodeEncodeError for an id that is no
    proper text.
    """
    return _write(task)


def read_task(data: bytes | str) -> RemoteTask:
    """Raises UnreadableMessage."""
    if len(data) > LARGEST_TASK:
        raise UnreadableMessage(f"A task of {len(data)} bytes is too large.")
    try:
        return _read_task(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableMessage(f"This is no task: {error}") from error


def read_task_object(raw: Any) -> RemoteTask:
    """The same from JSON that somebody has read already. Raises UnreadableMessage."""
    try:
        return msgspec.convert(raw, RemoteTask)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise UnreadableMessage(f"This is no task: {error}") from error


def write_reply(reply: TaskReply) -> bytes:
    return _write(reply)


def read_reply(data: bytes | str) -> TaskReply:
    """Raises UnreadableMessage."""
    if len(data) > 2 * LARGEST_REPLY:
        raise UnreadableMessage(f"A reply of {len(data)} bytes is too large.")
    try:
        return _read_reply(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableMessage(f"This is no reply: {error}") from error


def shortened(text: str) -> str:
    """A text for a message: not too long, and without half a surrogate pair."""
    whole = text.encode("utf-8", "replace").decode()
    return whole if len(whole) <= LONGEST_MESSAGE else whole[:LONGEST_MESSAGE] + "…"
