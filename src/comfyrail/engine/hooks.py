"""What others may do before and after a node and an execution [12.3]."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import structlog

from comfyrail.engine.caching.result import CachedResult
from comfyrail.engine.definition import NodeDefinition

log = structlog.get_logger(__name__)


class NodeVisit(msgspec.Struct, frozen=True):
    """One node of one execution, as hooks see it."""

    execution_id: str
    node_id: str
    definition: NodeDefinition
    key: str
    inputs: Mapping[str, Any] = msgspec.field(default_factory=dict)


class Hook:
    """Override what you need. All are called in the thread that executes; what they raise is
    logged, and the execution goes on.
    """

    def before_execution(self, execution_id: str) -> None: ...

    def after_execution(self, execution_id: str, *, succeeded: bool) -> None: ...

    def before_node(self, visit: NodeVisit) -> None: ...

    def after_node(
        self,
        visit: NodeVisit,
        *,
        status: str,
        seconds: float,
        result: CachedResult | None = None,
    ) -> None:
        """`status` is `completed`, `cached`, `expanded`, `failed` or `interrupted`."""

    def measured(self, definition: NodeDefinition, name: str, value: float) -> None:
        """A node has something to count or to measure. Called in the thread that runs it."""


class Hooks:
    """Several hooks as one; false when there are none."""

    def __init__(self, hooks: Iterable[Hook] = ()) -> None:
        self._hooks = tuple(hooks)
        self._before_node = [each for each in self._hooks if _overrides(each, "before_node")]
        self._after_node = [each for each in self._hooks if _overrides(each, "after_node")]

    def __bool__(self) -> bool:
        return bool(self._hooks)

    def before_execution(self, execution_id: str) -> None:
        for hook in self._hooks:
            try:
                hook.before_execution(execution_id)
            except Exception as error:  # noqa: BLE001 - a hook must not end an execution
                _tell(hook, error)

    def after_execution(self, execution_id: str, *, succeeded: bool) -> None:
        for hook in self._hooks:
            try:
                hook.after_execution(execution_id, succeeded=succeeded)
            except Exception as error:  # noqa: BLE001 - a hook must not end an execution
                _tell(hook, error)

    def before_node(self, visit: NodeVisit) -> None:
        for hook in self._before_node:
            try:
                hook.before_node(visit)
            except Exception as error:  # noqa: BLE001 - a hook must not end an execution
                _tell(hook, error)

    def after_node(
        self, visit: NodeVisit, *, status: str, seconds: float, result: CachedResult | None = None
    ) -> None:
        for hook in self._after_node:
            try:
                hook.after_node(visit, status=status, seconds=seconds, result=result)
            except Exception as error:  # noqa: BLE001 - a hook must not end an execution
                _tell(hook, error)

    def measured(self, definition: NodeDefinition, name: str, value: float) -> None:
        for hook in self._hooks:
            try:
                hook.measured(definition, name, value)
            except Exception as error:  # noqa: BLE001 - a hook must not end an execution
                _tell(hook, error)


def _overrides(hook: Hook, name: str) -> bool:
    return getattr(type(hook), name) is not getattr(Hook, name)


def _tell(hook: Hook, error: Exception) -> None:
    log.error("hook_failed", hook=type(hook).__name__, exc_info=error)
