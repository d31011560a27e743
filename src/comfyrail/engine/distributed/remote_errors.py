"""What went wrong elsewhere, as errors of this process."""

from collections.abc import Sequence

from comfyrail.engine.distributed.task import TaskReply
from comfyrail.engine.failures import NodeTimeout, UnservedInput
from comfyrail.engine.resources.errors import ResourceError

MOST_CLASSES = 1000


class RemoteNodeFailed(Exception):
    """A node raised elsewhere. Its class has the name of what was raised there."""

    trace: Sequence[str] = ()
    """The traceback, as it was there."""


class _OutOfResources(RemoteNodeFailed, MemoryError):
    pass


class _TookTooLong(RemoteNodeFailed, NodeTimeout):
    pass


class _HasNoInput(RemoteNodeFailed, UnservedInput):
    pass


class _MaySucceedLater(RemoteNodeFailed, OSError):
    pass


class BrokerUnreachable(ResourceError):
    """Nobody can be given a task now."""

    code = "BROKER_UNREACHABLE"


class ServiceUnreachable(ResourceError):
    """The service that should run the node does not answer, or is busy all the time."""

    code = "SERVICE_UNREACHABLE"


class ServiceRefused(ResourceError):
    """The service that should run the node does not take it."""

    code = "SERVICE_REFUSED"


_classes: dict[tuple[str, type[RemoteNodeFailed]], type[RemoteNodeFailed]] = {}


def error_of(reply: TaskReply) -> RemoteNodeFailed:
    """The failure of a node: of the same kind, with the same name and message as it was there."""
    error = _class_of(reply)(reply.message)
    error.trace = reply.trace
    if reply.trace:
        error.add_note("Elsewhere:\n" + "".join(reply.trace))
    return error


def _class_of(reply: TaskReply) -> type[RemoteNodeFailed]:
    base = _base_of(reply)
    name = (reply.error_type or "Exception", base)
    if name not in _classes:
        module, _, short = name[0].rpartition(".")
        if len(_classes) >= MOST_CLASSES:
            _classes.clear()
        _classes[name] = type(short, (base,), {"__module__": module or "builtins"})
    return _classes[name]


def _base_of(reply: TaskReply) -> type[RemoteNodeFailed]:
    match reply.kind:
        case "resource":
            return _OutOfResources
        case "timeout":
            return _TookTooLong
        case "dependency":
            return _HasNoInput
        case _:
            return _MaySucceedLater if reply.recoverable else RemoteNodeFailed
