"""What the stages need to know of a node's type, made ready once for each type of a catalog."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from comfyrail.validation.literals import QuickTest, quick_test
from comfyrail.workflow.catalog import InputPort, NodeCatalog, NodeType
from comfyrail.workflow.dynamic_inputs import (
    AUTOGROW,
    DYNAMIC_COMBO,
    DYNAMIC_SLOT,
    DYNAMIC_TYPES,
    ports_of,
)
from comfyrail.workflow.graph import Node, Workflow
from comfyrail.workflow.models import model_folder


@dataclass(frozen=True, slots=True)
class NodeCheck:
    """Ports of a node, with a quick test for the literal values of each."""

    type: NodeType
    ports: Mapping[str, InputPort]
    tests: Mapping[str, QuickTest | None]
    required: tuple[InputPort, ...]
    output_types: tuple[str, ...]
    model_ports: tuple[InputPort, ...]
    is_dynamic: bool = False

    def accepts(self, name: str, value: Any) -> bool:
        """Whether a literal passes the quick test of an input."""
        test = self.tests.get(name)
        return test is not None and test(value)


@dataclass(frozen=True, slots=True)
class ExaminedNode:
    """A node with the check of its type; None where the catalog does not know the type."""

    node: Node
    check: NodeCheck | None


def examine(workflow: Workflow, catalog: NodeCatalog) -> list[ExaminedNode]:
    """Every node with its check, in the order of the workflow."""
    checks = catalog.prepared(prepare_node_check)
    examined: list[ExaminedNode] = []
    for node in workflow.nodes.values():
        check = checks[node.class_type]
        if check is not None and check.is_dynamic:
            check = check_of(check.type, node.inputs)
        examined.append(ExaminedNode(node, check))
    return examined


def prepare_node_check(node_type: NodeType) -> NodeCheck:
    """The check of a type, for a node without any inputs where they depend on each other."""
    return check_of(node_type, {})


def check_of(node_type: NodeType, inputs: Mapping[str, Any]) -> NodeCheck:
    """The check of a node that has these inputs."""
    is_dynamic = any(port.type in DYNAMIC_TYPES for port in node_type.inputs.values())
    ports = ports_of(node_type, inputs)
    required = [port for port in ports.values() if port.required]
    if is_dynamic:
        required += _absent_groups(node_type, inputs, ports)
    return NodeCheck(
        type=node_type,
        ports=ports,
        tests={name: quick_test(node_type.name, port) for name, port in ports.items()},
        required=tuple(required),
        output_types=tuple(port.type for port in node_type.outputs),
        model_ports=tuple(_model_ports(node_type.name, ports.values())),
        is_dynamic=is_dynamic,
    )


def dynamic_choices(port: InputPort) -> Sequence[Any] | None:
    """The keys among which a dynamic combo chooses; None for any other port."""
    if port.type != DYNAMIC_COMBO:
        return None
    try:
        return [option["key"] for option in port.spec[1]["options"]]
    except (KeyError, TypeError, IndexError):
        return None


def _model_ports(class_type: str, ports: Iterable[InputPort]) -> Iterator[InputPort]:
    for port in ports:
        is_chooser = port.choices is not None and not port.takes_upload
        if is_chooser and model_folder(class_type, port, "any.safetensors") is not None:
            yield port


def _absent_groups(
    node_type: NodeType, inputs: Mapping[str, Any], ports: Mapping[str, InputPort]
) -> Iterator[InputPort]:
    """Groups of inputs that are needed and of which nothing is there.

    ComfyUI does not miss them, and the node then fails.
    """
    for port in node_type.inputs.values():
        if not port.required or port.name in ports or port.name in inputs:
            continue
        is_list = port.type == AUTOGROW and _least_items(port) > 0 and not _has_items(port, inputs)
        if is_list or port.type in {DYNAMIC_COMBO, DYNAMIC_SLOT}:
            yield port


def _has_items(port: InputPort, inputs: Mapping[str, Any]) -> bool:
    return any(name.startswith(f"{port.name}.") for name in inputs)


def _least_items(port: InputPort) -> int:
    try:
        return int(port.spec[1]["template"]["min"])
    except (KeyError, TypeError, IndexError, ValueError):
        return 0
