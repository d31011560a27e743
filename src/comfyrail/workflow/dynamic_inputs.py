"""Inputs that depend on other inputs: a list that grows, a choice that brings its own inputs, a
slot that brings some once it is linked.

Node types describe them in /object_info with the types below. In a prompt their parts have dotted
names (`images.image0`, `resize_type.multiplier`); a node's function gets them as mappings:
`images={"image0": …}`, `resize_type={"resize_type": "scale by multiplier", "multiplier": 2.0}`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from comfyrail.workflow.catalog import InputPort, NodeType, read_input_port

AUTOGROW = "COMFY_AUTOGROW_V3"
DYNAMIC_COMBO = "COMFY_DYNAMICCOMBO_V3"
DYNAMIC_SLOT = "COMFY_DYNAMICSLOT_V3"
MATCH_TYPE = "COMFY_MATCHTYPE_V3"
DYNAMIC_TYPES = frozenset({AUTOGROW, DYNAMIC_COMBO, DYNAMIC_SLOT})
MOST_ITEMS = 1000
"""ComfyUI allows 100; a worker may say anything."""

Sections = Mapping[str, Mapping[str, Sequence[Any]]]
"""Inputs by section: `{"required": {name: [type, options]}, "optional": …}`."""


class _Part(NamedTuple):
    """One input of a node as it stands in a prompt; `path` is where its value goes in a call."""

    name: str
    path: tuple[str, ...]
    spec: Sequence[Any]
    required: bool


def has_dynamic_inputs(sections: Sections) -> bool:
    """Whether the ports of a node type depend on the inputs that a node has."""
    return any(
        isinstance(spec[0], str) and spec[0] in DYNAMIC_TYPES for _, spec, _ in _declared(sections)
    )


def ports_of(node_type: NodeType, inputs: Mapping[str, Any]) -> Mapping[str, InputPort]:
    """The ports of a node of a catalog's type that has these inputs.

    A catalog comes from a worker: a dynamic input that makes no sense is a port like any other.
    """
    if not any(port.type in DYNAMIC_TYPES for port in node_type.inputs.values()):
        return node_type.inputs
    ports: dict[str, InputPort] = {}
    for name, port in node_type.inputs.items():
        section = "required" if port.required else "optional"
        try:
            ports.update(expand_ports({section: {name: port.spec}}, inputs))
        except (KeyError, TypeError, AttributeError, IndexError, StopIteration, RuntimeError):
            ports[name] = port
    return ports


def expand_ports(sections: Sections, inputs: Mapping[str, Any]) -> dict[str, InputPort]:
    """The ports of a node that has these inputs, by their dotted names.

    As in ComfyUI, what cannot be known without an input that is missing is no port: neither the
    sub-inputs of a choice that was not made, nor that choice itself.
    """
    return {part.name: _port_of(part) for part in _parts(sections, inputs)}


def names_with_option(sections: Sections, option: str) -> frozenset[str]:
    """The dotted names of all inputs that a node may have whose options have this one set."""
    return frozenset(name for name, spec in _possible(sections) if _is_set(spec, option))


def nest(
    values: Mapping[str, Any],
    sections: Sections,
    *,
    inputs: Mapping[str, Any] | None = None,
    with_names: bool = False,
) -> dict[str, Any]:
    """The values of one call with those of dotted names put into mappings.

    A part that is a port but has no value is None there. `inputs` are what decides which parts
    there are, where that is not the values themselves. `with_names` gives every value in a
    mapping together with its dotted name, by which a lazy input is asked for.
    """
    nested = dict(values)
    moved: dict[str, Any] = {}
    for part in _parts(sections, values if inputs is None else inputs):
        if len(part.path) > 1:
            value = nested.pop(part.name, None)
            _put(moved, part.path, (value, part.name) if with_names else value)
    return nested | moved


def _put(target: dict[str, Any], path: Sequence[str], value: Any) -> None:
    *folders, last = path
    for folder in folders:
        target = target.setdefault(folder, {})
    target[last] = value


def _parts(
    sections: Sections, inputs: Mapping[str, Any], prefix: tuple[str, ...] = ()
) -> Iterator[_Part]:
    for name, spec, required in _declared(sections):
        path = (*prefix, name)
        whole = ".".join(path)
        if spec[0] == AUTOGROW:
            yield from _parts(_grown(spec[1]["template"], path, inputs), inputs, path)
        elif spec[0] == DYNAMIC_COMBO:
            option = _chosen(spec[1]["options"], inputs.get(whole))
            if option is not None:
                yield _Part(whole, (*path, name), spec, required)
                yield from _parts(option["inputs"], inputs, path)
        elif spec[0] == DYNAMIC_SLOT:
            if whole in inputs:
                yield _Part(whole, (*path, name), spec, required)
                yield from _parts(spec[1]["inputs"], inputs, path)
        else:
            yield _Part(whole, path, spec, required)


def _possible(
    sections: Sections, prefix: tuple[str, ...] = ()
) -> Iterator[tuple[str, Sequence[Any]]]:
    """Every input that there can be, whatever is chosen."""
    for name, spec, _ in _declared(sections):
        path = (*prefix, name)
        if spec[0] == AUTOGROW:
            template = spec[1]["template"]
            item = _item_of(template)
            yield from ((".".join((*path, each)), item) for each in _item_names(template))
            continue
        yield ".".join(path), spec
        if spec[0] == DYNAMIC_COMBO:
            for option in spec[1]["options"]:
                yield from _possible(option["inputs"], path)
        elif spec[0] == DYNAMIC_SLOT:
            yield from _possible(spec[1]["inputs"], path)


def _declared(sections: Sections) -> Iterator[tuple[str, Sequence[Any], bool]]:
    for section in ("required", "optional"):
        for name, spec in sections.get(section, {}).items():
            yield name, spec, section == "required"


def _grown(
    template: Mapping[str, Any], path: tuple[str, ...], inputs: Mapping[str, Any]
) -> Sections:
    """The items of a growing list that are there: those within its minimum are required."""
    spec = _item_of(template)
    grown: dict[str, dict[str, Sequence[Any]]] = {"required": {}, "optional": {}}
    for index, name in enumerate(_item_names(template)):
        if ".".join((*path, name)) in inputs:
            grown["required" if index < template["min"] else "optional"][name] = spec
    return grown


def _item_names(template: Mapping[str, Any]) -> Iterable[str]:
    return template.get("names") or (
        f"{template['prefix']}{index}" for index in range(min(template["max"], MOST_ITEMS))
    )


def _item_of(template: Mapping[str, Any]) -> Sequence[Any]:
    return next(spec for _, spec, _ in _declared(template["input"]))


def _is_set(spec: Sequence[Any], option: str) -> bool:
    return len(spec) > 1 and isinstance(spec[1], Mapping) and bool(spec[1].get(option))


def _chosen(options: Sequence[Mapping[str, Any]], key: Any) -> Mapping[str, Any] | None:
    return next((option for option in options if option["key"] == key), None)


def _port_of(part: _Part) -> InputPort:
    port = read_input_port(part.name, part.spec, required=part.required)
    if part.spec[0] == DYNAMIC_SLOT:
        return _with_type(port, str(part.spec[1].get("slotType", "*")))
    # Which types must match is the editor's business: ComfyUI's server takes any.
    return _with_type(port, "*") if part.spec[0] == MATCH_TYPE else port


def _with_type(port: InputPort, name: str) -> InputPort:
    return InputPort(port.name, name, port.required, port.default, spec=port.spec)
