"""Nodes in processes of their own: they do not share the interpreter's lock, and can be killed."""

import contextlib
import importlib
import importlib.util
import multiprocessing
import multiprocessing.connection
import pickle
import sys
import threading
import time
import traceback
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple

from comfyrail.engine.definition import NodeDefinition, NodeFunction, NodeResult
from comfyrail.engine.descendants import end_with_descendants
from comfyrail.engine.failures import NodeTimeout, WorkerLost
from comfyrail.engine.interrupt import ExecutionHalted
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

    def run(self, invocation: Invocation, stop: threading.Event) -> list[NodeResult]:
        """Carry a node out in a process. Raises what the node raises; NodeTimeout when it takes
        too long and ExecutionHalted when it is to stop, which both kill it; WorkerLost when the
        process ends.
        """
        with self._most:
            child = self._take()
            try:
                result = _ask(child, invocation, stop)
            except BaseException:
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


class FunctionName(NamedTuple):
    """What another process needs to import a function; `file` where its module is a pack's, which
    no name leads to.
    """

    module: str
    name: str
    file: str | None


def importable_name(function: NodeFunction) -> FunctionName:
    """How another process finds a function. Raises TypeError."""
    module, name = function.__module__, function.__qualname__
    if module == "__main__" or "<" in name:
        raise TypeError(
            f"{name} cannot run in another process: it is not at the top level of a module."
        )
    file = getattr(sys.modules.get(module), "__file__", None) if "/" in module else None
    return FunctionName(module, name, file)


def import_function(place: FunctionName) -> NodeFunction:
    """The function of this name, also where a decorator made a node type of it."""
    module, name, file = place
    found: Any = sys.modules.get(module)
    if found is None:
        found = importlib.import_module(module) if file is None else _import_file(module, file)
    for part in name.split("."):
        found = getattr(found, part)
    function: NodeFunction = found.function if isinstance(found, NodeDefinition) else found
    return function


def _import_file(module: str, file: str) -> Any:
    folder = [str(Path(file).parent)] if Path(file).name == "__init__.py" else None
    spec = importlib.util.spec_from_file_location(module, file, submodule_search_locations=folder)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is no Python file.")
    made = importlib.util.module_from_spec(spec)
    sys.modules[module] = made
    spec.loader.exec_module(made)
    return made


def _ask(child: _Child, invocation: Invocation, stop: threading.Event) -> Any:
    definition = invocation.definition
    place = importable_name(invocation.function)
    payload = (place, dict(invocation.inputs), dict(invocation.fixed))
    limit = None if definition.timeout is None else time.monotonic() + definition.timeout
    try:
        child.pipe.send((payload, definition.name, len(definition.outputs), definition.takes_lists))
        while not child.pipe.poll(POLL_SECONDS):
            if stop.is_set():
                raise ExecutionHalted
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
    if child.process.pid is not None:
        end_with_descendants([child.process.pid])
    child.process.kill()
    child.process.join(5.0)


def _serve(pipe: "multiprocessing.connection.Connection[Any, Any]") -> None:
    """The child: carry out what comes, until nobody asks any more."""
    while True:
        try:
            (place, inputs, fixed), title, outputs, takes_lists = pipe.recv()
        except EOFError:
            return
        try:
            reply: Any = _carry_out(place, inputs, fixed, title, outputs, takes_lists)
        except BaseException as error:  # noqa: BLE001 - sent to whoever asked
            reply = _sendable(error)
        try:
            pipe.send(reply)
        except Exception:  # noqa: BLE001 - neither every value nor every error can be sent
            pipe.send(NodeFailedInChild(traceback.format_exc(limit=-3)))


def _sendable(error: BaseException) -> BaseException:
    """The error, if it comes out at the other end as what it is."""
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - our own error, in our own process
    except Exception:  # noqa: BLE001 - some cannot be written, some cannot be read
        return NodeFailedInChild(f"{type(error).__name__}: {error}")
    return error


def _carry_out(
    place: FunctionName,
    inputs: Any,
    fixed: Any,
    title: str,
    outputs: int,
    takes_lists: bool,
) -> list[NodeResult]:
    function = import_function(FunctionName(*place))
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
