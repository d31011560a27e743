"""Node classes of ComfyUI's first kind: INPUT_TYPES, RETURN_TYPES, FUNCTION."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

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
from comfyrail.engine.comfyui.descriptions import Description, describe_class
from comfyrail.engine.comfyui.fingerprints import fingerprint_of
from comfyrail.engine.comfyui.input_types import InputTypes, NamesWithOption, type_or_any
from comfyrail.engine.comfyui.results import ResultReader
from comfyrail.engine.definition import (
    NodeDefinition,
    NodeFunction,
    NodeInputs,
    NodeMethods,
    Specs,
)
from comfyrail.workflow.catalog import COMBO, OutputPort


def definition_of(
    name: str,
    node_class: Any,
    python_module: str = "nodes",
    display_name: str | None = None,
    *,
    version: str = "comfyui",
) -> NodeDefinition:
    """The class as a node type. INPUT_TYPES is asked anew each time: its choices may change.

    Raises whatever the class raises when it is asked.
    """
    types = InputTypes(node_class.INPUT_TYPES())
    ports = types.ports()
    outputs = outputs_of(node_class)
    adapter = _Adapter(node_class, types, ports, ResultReader(name, outputs))
    shown_name = display_name or name
    return NodeDefinition(
        name=name,
        function=adapter.run_once(),
        required=_specs(types.required),
        optional=_specs(types.optional),
        hidden=travelling(types.hidden),
        outputs=outputs,
        ports=ports,
        is_output=getattr(node_class, "OUTPUT_NODE", False) is True,
        category=str(getattr(node_class, "CATEGORY", "sd")),
        display_name=shown_name,
        description=str(getattr(node_class, "DESCRIPTION", "")),
        version=version,
        deprecated=bool(getattr(node_class, "DEPRECATED", False)),
        experimental=bool(getattr(node_class, "EXPERIMENTAL", False)),
        keyed_by_id=is_keyed_by_id(node_class, types.hidden),
        is_async=inspect.iscoroutinefunction(getattr(node_class, node_class.FUNCTION)),
        takes_lists=adapter.takes_lists,
        takes_undeclared=True,
        lazy_inputs=NamesWithOption.of(ports, "lazy"),
        raw_links=NamesWithOption.of(ports, "rawLink"),
        instantiate=adapter.instantiate,
        check=adapter.check(),
        fingerprint=adapter.fingerprint(),
        is_local=True,
        python_module=python_module,
        described=Description(
            lambda: describe_class(name, node_class, types.declared, python_module, shown_name)
        ),
    )


def outputs_of(node_class: Any) -> tuple[OutputPort, ...]:
    """The outputs of a class; names and list flags that are missing have ComfyUI's defaults."""
    types = list(node_class.RETURN_TYPES)
    names = list(getattr(node_class, "RETURN_NAMES", None) or types)
    lists = list(getattr(node_class, "OUTPUT_IS_LIST", None) or ())
    return tuple(
        OutputPort(
            name=_text(names[index] if index < len(names) else kind),
            type=type_or_any(kind) if isinstance(kind, str) else _text(kind),
            is_list=bool(lists[index]) if index < len(lists) else False,
        )
        for index, kind in enumerate(types)
    )


def is_keyed_by_id(node_class: Any, hidden: Mapping[str, str]) -> bool:
    """Whether an equal node of another id may not have this one's results."""
    return bool(getattr(node_class, "NOT_IDEMPOTENT", False)) or "UNIQUE_ID" in hidden.values()


def _text(kind: Any) -> str:
    return COMBO if isinstance(kind, list | tuple) else str(kind)


def _specs(section: Mapping[str, Any]) -> Specs:
    return section


class _Adapter:
    """Between the engine's way to call and that of one class."""

    def __init__(
        self, node_class: Any, types: InputTypes, ports: Mapping[str, Any], results: ResultReader
    ) -> None:
        self._class = node_class
        self._types = types
        self._ports = ports
        self._results = results
        self.takes_lists = bool(getattr(node_class, "INPUT_IS_LIST", False))

    def instantiate(self) -> NodeMethods:
        """An object of the class, which may keep a state between its runs."""
        instance = self._class()
        lazy = getattr(instance, "check_lazy_status", None)
        return NodeMethods(
            self._adapted(getattr(instance, self._class.FUNCTION), self._results.read),
            None if lazy is None else self._adapted(lazy, names_needed),
        )

    def run_once(self) -> NodeFunction:
        """For whoever calls the function of the definition: on an object made for this call."""
        if inspect.iscoroutinefunction(getattr(self._class, self._class.FUNCTION)):

            async def run_async(**inputs: Any) -> Any:
                return await self.instantiate().run(**inputs)

            return run_async
        return lambda **inputs: self.instantiate().run(**inputs)

    def check(self) -> ClassCheck | None:
        validate = getattr(self._class, "VALIDATE_INPUTS", None)
        if validate is None:
            return None
        return ClassCheck.of(
            validate,
            ask=lambda _: validate,
            ports_for=self._ports_for,
            hidden=lambda node_id: hidden_before_running(self._types.hidden, node_id),
            takes_lists=self.takes_lists,
        )

    def fingerprint(self) -> Callable[[NodeInputs], object] | None:
        is_changed = getattr(self._class, "IS_CHANGED", None)
        if is_changed is None:
            return None
        ask = adapt(is_changed, read=fingerprint_of)

        def fingerprint(inputs: NodeInputs) -> object:
            hidden = hidden_before_running(self._types.hidden, inputs.node_id)
            values = constants_of(inputs, self._ports_for) | hidden
            return ask(**as_lists(values, inputs.links) if self.takes_lists else values)

        return fingerprint

    def _ports_for(self, _: Mapping[str, Any]) -> Mapping[str, Any]:
        return self._ports

    def _adapted(self, call: Callable[..., Any], read: Callable[[Any], Any]) -> NodeFunction:
        return adapt(call, prepare=self._with_hidden, read=read)

    def _with_hidden(self, inputs: Values) -> Values:
        plain, hidden = split_hidden(inputs)
        return plain | (as_lists(hidden) if self.takes_lists else hidden)
