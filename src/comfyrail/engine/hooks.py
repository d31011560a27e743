"""What others may do before and after a node and an execution [12.3]."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import structlog

from comfyrail.engine.caching.result import CachedResult
from comfyrail.engine.definition import NodeDefinition

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class NodeVisit:
    """One node of one execution, as hooks see it."""

    execution_id: str
    node_id: str
    definition: NodeDefinition
    key: str
    inputs: Mapping[str, Any] = field(default_factory=dict)


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


class Hooks:
    """Several hooks as one; false when there are none."""

    def __init__(self, hooks: Iterable[Hook] = ()) -> None:
        self._hooks = tuple(hooks)

    def __bool__(self) -> bool:
        return bool(self._hooks)

    def before_execution(self, execution_id: str) -> None:
        self._each(lambda hook: hook.before_execution(execution_id))

    def after_execution(self, execution_id: str, *, succeeded: bool) -> None:
        self._each(lambda hook: hook.after_execution(execution_id, succeeded=succeeded))

    def before_node(self, visit: NodeVisit) -> None:
        self._each(lambda hook: hook.before_node(visit))

    def after_node(
        self, visit: NodeVisit, *, status: str, seconds: float, result: CachedResult | None = None
    ) -> None:
        self._each(
            lambda hook: hook.after_node(visit, status=status, seconds=seconds, result=result)
        )

    def _each(self, call: Callable[[Hook], None]) -> None:
        for hook in self._hooks:
            try:
                call(hook)
            except Exception:
                log.exception("hook_failed", hook=type(hook).__name__)
