"""What a node class says about its inputs, which may be a mapping with a mind of its own."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast, get_args

from comfyrail.engine.definition import HiddenInput
from comfyrail.workflow.catalog import InputPort, read_input_port
from comfyrail.workflow.dynamic_inputs import MATCH_TYPE

HIDDEN_PREFIX = "hidden "
"""Before the name under which a hidden input travels: no input of a prompt should be called so."""

_HIDDEN_KINDS = frozenset(get_args(HiddenInput))
_ANY = "*"
_NO_TYPE = "no such type"


class InputTypes:
    """The sections of INPUT_TYPES as they were given, and the ports that they mean.

    A section may claim to have every name (a dict whose `__contains__` is always true): classes
    with any number of inputs are made so. What is not declared there is found all the same.
    """

    def __init__(self, declared: Mapping[str, Any]) -> None:
        self.declared = declared
        self.required = _section(declared, "required")
        self.optional = _section(declared, "optional")
        self.hidden: dict[str, HiddenInput] = {}
        """What the engine fills in, by the name that the class gave it."""
        self._from_prompt: list[str] = []
        for name, kind in _section(declared, "hidden").items():
            if isinstance(kind, str) and kind in _HIDDEN_KINDS:
                self.hidden[name] = cast("HiddenInput", kind)
            else:
                self._from_prompt.append(name)

    def ports(self) -> "Ports":
        return Ports(self, self._from_prompt)

    def find(self, name: str) -> tuple[Any, bool] | None:
        """The specification of an input and whether it is required."""
        for section, required in ((self.required, True), (self.optional, False)):
            if name in section:
                return section[name], required
        return None


class Ports(Mapping[str, InputPort]):
    """The ports of a class; lists those that are declared, finds those that it claims to have."""

    def __init__(self, types: InputTypes, from_prompt: Sequence[str]) -> None:
        self._types = types
        self._ports: dict[str, InputPort] = {}
        for section, required in ((types.required, True), (types.optional, False)):
            for name, spec in section.items():
                self._ports.setdefault(name, _port_of(name, spec, required=required))
        for name in from_prompt:
            # Its type is not judged: it is for graphs that nodes make, not for those of users.
            self._ports.setdefault(name, InputPort(name, _ANY, required=False, spec=(_ANY, {})))

    def __getitem__(self, name: str) -> InputPort:
        port = self._ports.get(name)
        if port is None:
            found = self._types.find(name)
            if found is None:
                raise KeyError(name)
            port = _port_of(name, found[0], required=False)
            self._ports[name] = port
        return port

    def __contains__(self, name: object) -> bool:
        if name in self._ports:
            return True
        return isinstance(name, str) and self._types.find(name) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._ports))

    def __len__(self) -> int:
        return len(self._ports)


class NamesWithOption(frozenset[str]):
    """The inputs whose specification has an option set, also of those that are not declared."""

    _ports: Mapping[str, InputPort]
    _option: str

    @classmethod
    def of(cls, ports: Mapping[str, InputPort], option: str) -> "NamesWithOption":
        names = cls(name for name, port in ports.items() if _has_option(port, option))
        names._ports = ports
        names._option = option
        return names

    def __contains__(self, name: object) -> bool:
        if super().__contains__(name):
            return True
        port = self._ports.get(name) if isinstance(name, str) else None
        return port is not None and _has_option(port, self._option)


def type_or_any(declared: Any) -> Any:
    """The type; `*` in place of one that says of itself that it differs from no other, and of one
    that must only match others of its node, which is the editor's business.
    """
    if not isinstance(declared, str) or declared == _ANY:
        return declared
    if declared == MATCH_TYPE:
        return _ANY
    try:
        is_any = not declared != _NO_TYPE  # noqa: SIM202 - `!=` is what such types change
    except Exception:  # noqa: BLE001 - a class of somebody else's
        return declared
    return _ANY if is_any else declared


def _section(declared: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    # One that lists nothing may still have every name.
    section: Mapping[str, Any] | None = declared.get(name)
    return {} if section is None else section


def _port_of(name: str, spec: Any, *, required: bool) -> InputPort:
    if isinstance(spec, list | tuple) and spec and isinstance(spec[0], str):
        spec = (type_or_any(spec[0]), *spec[1:])
    return read_input_port(name, spec, required=required)


def _has_option(port: InputPort, option: str) -> bool:
    options = port.spec[1] if len(port.spec) > 1 else None
    return isinstance(options, Mapping) and bool(options.get(option))
