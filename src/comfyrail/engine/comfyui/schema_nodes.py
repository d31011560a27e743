"""Node classes of ComfyUI's newer kind: define_schema and execute, with NodeOutput."""

import importlib
import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast, get_args

from comfyrail.engine.blocking import ExecutionBlocker
from comfyrail.engine.comfyui.calling import (
    Values,
    adapt,
    as_lists,
    constants_of,
    hidden_before_running,
    names_needed,
    split_hidden,
    travelling,
)
from comfyrail.engine.comfyui.checks import ClassCheck
from comfyrail.engine.comfyui.classes import is_keyed_by_id, outputs_of
from comfyrail.engine.comfyui.descriptions import Description
from comfyrail.engine.comfyui.fingerprints import fingerprint_of
from comfyrail.engine.comfyui.results import ResultReader, read_expansion
from comfyrail.engine.definition import (
    HiddenInput,
    NodeDefinition,
    NodeFunction,
    NodeInputs,
    NodeMethods,
    NodeResult,
)
from comfyrail.workflow.dynamic_inputs import (
    Sections,
    expand_ports,
    has_dynamic_inputs,
    names_with_option,
    nest,
)

_HIDDEN_KINDS = frozenset(get_args(HiddenInput))


def is_schema_class(node_class: Any) -> bool:
    """Whether a class is of the newer kind, known by what only those have."""
    return hasattr(node_class, "GET_NODE_INFO_V1") and hasattr(node_class, "define_schema")


def definition_of_schema(
    name: str,
    node_class: Any,
    python_module: str = "nodes",
    *,
    version: str = "comfyui",
) -> NodeDefinition:
    """The class as a node type; the schema is asked anew each time.

    Raises whatever the class raises when it is asked.
    """
    sections = dict(node_class.INPUT_TYPES())
    hidden = _read_hidden(sections.pop("hidden", {}))
    adapter = _Adapter(node_class, sections, hidden, ResultReader(name, outputs_of(node_class)))
    return NodeDefinition(
        name=name,
        function=adapter.run(),
        required=sections.get("required", {}),
        optional=sections.get("optional", {}),
        hidden=travelling(hidden),
        outputs=outputs_of(node_class),
        ports=expand_ports(sections, {}),
        is_output=node_class.OUTPUT_NODE is True,
        category=str(node_class.CATEGORY),
        description=str(node_class.DESCRIPTION),
        version=version,
        schema="v3",
        deprecated=bool(node_class.DEPRECATED),
        experimental=bool(node_class.EXPERIMENTAL),
        keyed_by_id=is_keyed_by_id(node_class, hidden),
        is_async=inspect.iscoroutinefunction(getattr(node_class, node_class.FUNCTION)),
        takes_lists=adapter.takes_lists,
        takes_undeclared=True,
        lazy_inputs=names_with_option(sections, "lazy"),
        raw_links=names_with_option(sections, "rawLink"),
        instantiate=adapter.instantiate,
        dynamic_ports=(partial(expand_ports, sections) if has_dynamic_inputs(sections) else None),
        check=adapter.check(),
        fingerprint=adapter.fingerprint(),
        is_local=True,
        python_module=python_module,
        described=Description(node_class.GET_NODE_INFO_V1),
    )


def _read_hidden(section: Mapping[str, Any]) -> dict[str, HiddenInput]:
    """Hidden inputs by their names; each is given as a tuple of its kind."""
    kinds = {name: str(getattr(kind[0], "value", kind[0])) for name, kind in section.items()}
    return {
        name: cast("HiddenInput", kind) for name, kind in kinds.items() if kind in _HIDDEN_KINDS
    }


class _Adapter:
    """Between the engine's way to call and that of one class.

    Every call gets a clone of the class, which holds the hidden inputs and cannot be changed: the
    helpers for that are the checkout's own.
    """

    def __init__(
        self,
        node_class: Any,
        sections: Sections,
        hidden: Mapping[str, HiddenInput],
        results: ResultReader,
    ) -> None:
        self._class = node_class
        self._sections = sections
        self._hidden = hidden
        self._results = results
        self._helpers: Any = importlib.import_module("comfy_api.internal")
        self._is_dynamic = has_dynamic_inputs(sections)
        self.takes_lists = bool(node_class.INPUT_IS_LIST)

    def run(self) -> NodeFunction:
        return self._method(self._class.FUNCTION, self._read)

    def instantiate(self) -> NodeMethods:
        self._class()
        lazy: NodeFunction | None = None
        if self._overrides("check_lazy_status"):
            lazy = self._method("check_lazy_status", names_needed, with_names=True)
        return NodeMethods(self.run(), lazy)

    def check(self) -> ClassCheck | None:
        if not self._overrides("validate_inputs"):
            return None
        return ClassCheck.of(
            self._class.validate_inputs,
            ask=self._validator,
            ports_for=partial(expand_ports, self._sections),
            hidden=lambda _: {},
            takes_lists=self.takes_lists,
        )

    def fingerprint(self) -> Callable[[NodeInputs], object] | None:
        name = "fingerprint_inputs" if self._overrides("fingerprint_inputs") else "IS_CHANGED"
        if not hasattr(self._class, name):
            return None

        def fingerprint(inputs: NodeInputs) -> object:
            hidden = hidden_before_running(self._hidden, inputs.node_id)
            ask = adapt(self._bound(name, hidden), prepare=self._nested, read=fingerprint_of)
            values = constants_of(inputs, partial(expand_ports, self._sections))
            return ask(**as_lists(values, inputs.links) if self.takes_lists else values)

        return fingerprint

    def _validator(self, node_id: str) -> NodeFunction:
        hidden = hidden_before_running(self._hidden, node_id)
        return adapt(self._bound("validate_inputs", hidden), prepare=self._nested)

    def _method(
        self, name: str, read: Callable[[Any], Any], *, with_names: bool = False
    ) -> NodeFunction:
        """A method of the class that gets its hidden inputs with every call."""

        def prepared(inputs: Values) -> tuple[Callable[..., Any], Values]:
            plain, hidden = split_hidden(inputs)
            return self._bound(name, hidden), self._nested(plain, with_names=with_names)

        if inspect.iscoroutinefunction(getattr(self._class, name)):

            async def run_async(**inputs: Any) -> Any:
                function, values = prepared(inputs)
                return read(await function(**values))

            return run_async

        def run(**inputs: Any) -> Any:
            function, values = prepared(inputs)
            return read(function(**values))

        return run

    def _bound(self, name: str, hidden: Mapping[str, Any]) -> Callable[..., Any]:
        by_kind: dict[str, Any] = {self._hidden[each]: value for each, value in hidden.items()}
        # Older versions take the hidden inputs themselves, newer ones a mapping that has them.
        clone = self._class.PREPARE_CLASS_CLONE({**by_kind, "hidden_inputs": by_kind})
        bound: Callable[..., Any] = self._helpers.make_locked_method_func(self._class, name, clone)
        return bound

    def _nested(self, values: Values, *, with_names: bool = False) -> Values:
        if not self._is_dynamic:
            return values
        deciding = values
        if self.takes_lists:
            deciding = {name: items[0] if items else None for name, items in values.items()}
        return nest(values, self._sections, inputs=deciding, with_names=with_names)

    def _overrides(self, name: str) -> bool:
        return self._helpers.first_real_override(self._class, name) is not None

    def _read(self, output: Any) -> NodeResult:
        """A NodeOutput, which the class's own wrapper makes of whatever `execute` returns."""
        ui = output.ui if output.ui is None or isinstance(output.ui, dict) else output.ui.as_dict()
        if output.block_execution is not None:
            outputs = self._results.outputs_of(ExecutionBlocker(str(output.block_execution)))
        else:
            outputs = self._results.outputs_of(() if output.result is None else output.result)
        return NodeResult(outputs, ui=ui or None, expand=read_expansion(output.expand))
