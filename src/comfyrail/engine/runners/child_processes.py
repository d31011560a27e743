"""Nodes in processes of their own: they do not share the interpreter's lock, and can be killed."""

import contextlib
import importlib
import multiprocessing
import multiprocessing.connection
import threading
import time
import traceback
from multiprocessing.process import BaseProcess
from typing import Any, NamedTuple

from comfyrail.engine.definition import NodeDefinition, NodeFunction, NodeResult
from comfyrail.engine.failures import NodeTimeout, WorkerLost
from comfyrail.engine.invoke import Invocation
from comfyrail.workflow.catalog import OutputPort

POLL_SECONDS = 0.1

_ANY = OutputPort("any", "*")


class NodeFailedInChild(Exception):
    """A node raised in its process, and what it raised could not be sent."""


class _Child(NamedTuple):
    process: BaseProcess
    pipe: "multiprocessing.connection.Connection[Any, Any]"


class ChildProcesses:
    """At most `most` processes, kept for the next node. Used from several threads."""

    def __init__(self, most: int) -> None:
        self._context = multiprocessing.get_context("spawn")
        self._most = threading.BoundedSemaphore(max(most, 1))
        self._lock = threading.Lock()
        self._idle: list[_Child] = []
        self._closed = False

    def run(self, invocation: Invocation) -> list[NodeResult]:
        """Carry a node out in a process. Raises what the node raises; NodeTimeout when it takes
        too long, which kills it; WorkerLost when the process ends.
        """
        with self._most:
            child = self._take()
            try:
                result = _ask(child, invocation)
            except (NodeTimeout, WorkerLost):
                _end(child)
                raise
            self._give_back(child)
        if isinstance(result, BaseException):
            raise result
        results: list[NodeResult] = result
        return results

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for child in idle:
            _end(child)

    def _take(self) -> _Child:
        with self._lock:
            while self._idle:
                child = self._idle.pop()
                if child.process.is_alive():
                    return child
                _end(child)
        here, there = self._context.Pipe()
        process = self._context.Process(target=_serve, args=(there,), daemon=True)
        process.start()
        there.close()
        return _Child(process, here)

    def _give_back(self, child: _Child) -> None:
        with self._lock:
            if not self._closed:
                self._idle.append(child)
                return
        _end(child)


def importable_name(function: NodeFunction) -> tuple[str, str]:
    """Module and name of a function that another process can import. Raises TypeError."""
    module, name = function.__module__, function.__qualname__
    if module == "__main__" or "<" in name:
        raise TypeError(
            f"{name} cannot run in another process: it is not at the top level of a module."
        )
    return module, name


def import_function(module: str, name: str) -> NodeFunction:
    """The function of this name, also where a decorator made a node type of it."""
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    function: NodeFunction = found.function if isinstance(found, NodeDefinition) else found
    return function


def _ask(child: _Child, invocation: Invocation) -> Any:
    definition = invocation.definition
    module, name = importable_name(invocation.function)
    payload = (module, name, dict(invocation.inputs), dict(invocation.fixed))
    limit = None if definition.timeout is None else time.monotonic() + definition.timeout
    try:
        child.pipe.send((payload, definition.name, len(definition.outputs), definition.takes_lists))
        while not child.pipe.poll(POLL_SECONDS):
            if limit is not None and time.monotonic() > limit:
                raise NodeTimeout(f"The node did not finish within {definition.timeout:g} s.")
        return child.pipe.recv()
    except (EOFError, OSError) as error:
        child.process.join(1.0)
        raise WorkerLost(
            f"The process that ran {definition.name} ended (exit code {child.process.exitcode})."
        ) from error


def _end(child: _Child) -> None:
    with contextlib.suppress(OSError):
        child.pipe.close()
    child.process.kill()
    child.process.join(5.0)


def _serve(pipe: "multiprocessing.connection.Connection[Any, Any]") -> None:
    """The child: carry out what comes, until nobody asks any more."""
    while True:
        try:
            (module, name, inputs, fixed), title, outputs, takes_lists = pipe.recv()
        except EOFError:
            return
        try:
            reply: Any = _carry_out(module, name, inputs, fixed, title, outputs, takes_lists)
        except BaseException as error:  # noqa: BLE001 - sent to whoever asked
            reply = error
        try:
            pipe.send(reply)
        except Exception:  # noqa: BLE001 - neither every value nor every error can be sent
            pipe.send(NodeFailedInChild(traceback.format_exc(limit=-3)))


def _carry_out(
    module: str,
    name: str,
    inputs: Any,
    fixed: Any,
    title: str,
    outputs: int,
    takes_lists: bool,
) -> list[NodeResult]:
    function = import_function(module, name)
    definition = NodeDefinition(
        name=title,
        function=function,
        required={},
        optional={},
        hidden={},
        outputs=(_ANY,) * outputs,
        ports={},
        takes_lists=takes_lists,
    )
    return Invocation(definition, function, inputs, fixed).run()
