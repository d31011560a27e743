"""One catalog of many workers' catalogs, and where they differ.

The rules, for a node type that workers describe differently:

- It has every input that any of them has; an input is required where all of them require it.
- A choice that one of them offers is a choice; a range is as wide as the widest. Of an input that
  is of different kinds each is taken.
- It has as many outputs as the one with the most; where kinds differ each is given. It is an
  output node where it is one on some worker.
- Titles and the like are those of the description that comes first: the caller puts the most
  common one there.

So nothing is refused that some worker would take. Whether one worker takes all of a workflow is
then asked of each worker's own catalog.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from comfyrail.workflow.catalog import InputPort, NodeCatalog, NodeType, OutputPort

DifferenceKind = Literal["inputs", "outputs", "output_node", "kind", "choices", "range", "required"]


@dataclass(frozen=True, slots=True)
class Difference:
    """A node type, or one of its inputs, that workers describe in more than one way."""

    node_type: str
    kind: DifferenceKind
    input: str | None = None


def merge_catalogs(catalogs: Sequence[NodeCatalog]) -> NodeCatalog:
    """Every node type that one of them has; see above for those that differ."""
    if len(catalogs) == 1:
        return catalogs[0]
    return NodeCatalog(
        {
            name: versions[0] if len(versions) == 1 else _merge_types(versions)
            for name, versions in _versions(catalogs).items()
        }
    )


def find_differences(catalogs: Sequence[NodeCatalog]) -> Iterator[Difference]:
    """What `merge_catalogs` had to decide. That lists of choices differ is told too."""
    for name, versions in _versions(catalogs).items():
        first = versions[0]
        if any(each.outputs != first.outputs for each in versions):
            yield Difference(name, "outputs")
        if any(each.is_output != first.is_output for each in versions):
            yield Difference(name, "output_node")
        if any(each.inputs.keys() != first.inputs.keys() for each in versions):
            yield Difference(name, "inputs")
        for port_name in first.inputs:
            ports = [each.inputs[port_name] for each in versions if port_name in each.inputs]
            yield from (Difference(name, kind, port_name) for kind in _kinds(ports))


def _versions(catalogs: Iterable[NodeCatalog]) -> dict[str, list[NodeType]]:
    versions: dict[str, list[NodeType]] = {}
    for catalog in catalogs:
        for name, node_type in catalog.types.items():
            known = versions.setdefault(name, [])
            # Equal descriptions are mostly the same object: see `share_types`.
            if not any(each is node_type or each == node_type for each in known):
                known.append(node_type)
    return versions


def share_types(catalog: NodeCatalog, known: Sequence[NodeCatalog]) -> NodeCatalog:
    """The catalog with descriptions that a known one has too as the same objects.

    Workers differ mostly in their lists of files: a thousand of them must not cost a thousand
    catalogs of memory.
    """
    return NodeCatalog(
        {name: _shared(node_type, name, known) for name, node_type in catalog.types.items()}
    )


def _shared(node_type: NodeType, name: str, known: Sequence[NodeCatalog]) -> NodeType:
    candidates = (catalog.types.get(name) for catalog in known)
    return next((each for each in candidates if each == node_type), node_type)


def _merge_types(versions: Sequence[NodeType]) -> NodeType:
    names = dict.fromkeys(name for each in versions for name in each.inputs)
    return replace(
        versions[0],
        inputs={name: _merge_ports(name, versions) for name in names},
        outputs=_merge_outputs([each.outputs for each in versions]),
        is_output=any(each.is_output for each in versions),
    )


def _merge_outputs(versions: Sequence[tuple[OutputPort, ...]]) -> tuple[OutputPort, ...]:
    longest = max(versions, key=len)
    return tuple(
        replace(port, type=_all_types(each[slot].type for each in versions if slot < len(each)))
        for slot, port in enumerate(longest)
    )


def _all_types(types: Iterable[str]) -> str:
    """As ComfyUI writes that several will do."""
    return ",".join(dict.fromkeys(types))


def _merge_ports(name: str, versions: Sequence[NodeType]) -> InputPort:
    ports = [each.inputs[name] for each in versions if name in each.inputs]
    is_alike = all(port.type == ports[0].type for port in ports)
    return replace(
        ports[0],
        type=_all_types(port.type for port in ports),
        required=len(ports) == len(versions) and all(port.required for port in ports),
        choices=_all_choices(ports) if is_alike else None,
        minimum=_bound(min, [port.minimum for port in ports]) if is_alike else None,
        maximum=_bound(max, [port.maximum for port in ports]) if is_alike else None,
        takes_upload=any(port.takes_upload for port in ports),
    )


def _all_choices(ports: Sequence[InputPort]) -> tuple[object, ...] | None:
    if any(port.choices is None for port in ports):
        return None
    seen: list[object] = []
    strings: set[str] = set()
    for choice in (choice for port in ports for choice in port.choices or ()):
        if isinstance(choice, str):
            if choice not in strings:
                strings.add(choice)
                seen.append(choice)
        elif choice not in seen:  # numbers and the like: few, and not always hashable
            seen.append(choice)
    return tuple(seen)


def _bound(
    widest: Callable[[Iterable[float]], float], bounds: Sequence[float | None]
) -> float | None:
    known = [bound for bound in bounds if bound is not None]
    return widest(known) if len(known) == len(bounds) else None


def _kinds(ports: Sequence[InputPort]) -> Iterator[DifferenceKind]:
    first, others = ports[0], ports[1:]
    if any(port.type != first.type for port in others):
        yield "kind"
    if any(port.choices != first.choices for port in others):
        yield "choices"
    if any((port.minimum, port.maximum) != (first.minimum, first.maximum) for port in others):
        yield "range"
    if any(port.required != first.required for port in others):
        yield "required"
