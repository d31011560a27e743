"""A workflow's signature: the same for all that cost the same to run.

It is a Merkle hash. A node's label has its type, its costly values (see `input_costs`) and the
labels of what feeds it, so that ids, titles, the order of nodes and cheap values leave no trace;
the signature hashes the sorted labels of all nodes, each with how many inputs it feeds.
"""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from math import isfinite
from typing import Any

from comfyrail.errors import CyclicWorkflow
from comfyrail.workflow.catalog import InputPort, NodeCatalog, NodeType
from comfyrail.workflow.dynamic_inputs import DYNAMIC_TYPES, ports_of
from comfyrail.workflow.graph import Node, Workflow, is_link
from comfyrail.workflow.input_costs import halves_the_work, is_costly, without_excess
from comfyrail.workflow.values import unwrap

SCALAR_TYPES = frozenset(("INT", "FLOAT", "STRING", "BOOLEAN"))
DIGEST_SIZE = 16
LONGEST_VALUE = 200
"""Characters of a text that count, with its length: no choice or model name is longer."""
MOST_BITS = 64
CYCLE_ROUNDS = 3
"""How far around itself a node of a cyclic graph looks. Such a graph never runs."""

Ports = Mapping[str, InputPort]


def signature_of(workflow: Workflow, catalog: NodeCatalog) -> str:
    """32 hexadecimal digits. Linear; every workflow has one, also a cyclic or broken one.

    Two nodes that are the same in all that feeds them have one label: which of them feeds a third
    node makes no difference but to how many each feeds, as it makes none to the cost.
    """
    graph = without_excess(workflow.expanded(), catalog)
    labels = _labels(graph, catalog)
    users = _users(graph)
    whole = blake2b(digest_size=DIGEST_SIZE)
    for label, count in sorted((label, users[node_id]) for node_id, label in labels.items()):
        whole.update(label)
        whole.update(count.to_bytes(8, "big"))
    return whole.hexdigest()


def _labels(graph: Workflow, catalog: NodeCatalog) -> Mapping[str, bytes]:
    nodes = graph.nodes
    ports = _ports(graph, catalog)
    labels: dict[str, bytes] = {}
    try:
        order = graph.order
    except CyclicWorkflow:
        for _ in range(CYCLE_ROUNDS):
            labels = {
                node.id: _label(node, ports[node.id], labels, plain=False)
                for node in nodes.values()
            }
        return labels
    cheap_sources = _sources_of_cheap_values(graph, catalog, ports, order)
    for node_id in order:
        plain = node_id in cheap_sources
        labels[node_id] = _label(nodes[node_id], ports[node_id], labels, plain=plain)
    return labels


def _users(workflow: Workflow) -> Mapping[str, int]:
    """How many inputs each node feeds."""
    users: dict[str, int] = dict.fromkeys(workflow.nodes, 0)
    for node in workflow.nodes.values():
        for value in node.inputs.values():
            if isinstance(value, list) and is_link(value) and value[0] in users:
                users[value[0]] += 1
    return users


def _ports(workflow: Workflow, catalog: NodeCatalog) -> Mapping[str, Ports]:
    """The ports of every node by its id; none where nobody knows the type."""
    static = catalog.prepared(_static_ports)
    found: dict[str, Ports] = {}
    for node in workflow.nodes.values():
        ports = static[node.class_type]
        if ports is None:
            node_type = catalog.get(node.class_type)
            ports = {} if node_type is None else ports_of(node_type, node.inputs)
        found[node.id] = ports
    return found


def _static_ports(node_type: NodeType) -> Ports | None:
    """The ports of a type whose nodes all have the same."""
    dynamic = any(port.type in DYNAMIC_TYPES for port in node_type.inputs.values())
    return None if dynamic else node_type.inputs


def _sources_of_cheap_values(
    workflow: Workflow, catalog: NodeCatalog, ports: Mapping[str, Ports], order: Sequence[str]
) -> frozenset[str]:
    """Nodes that give numbers and texts only, to cheap inputs only: a seed in a node of its own."""
    gives_scalars = catalog.prepared(_gives_scalars)
    scalars = {node.id for node in workflow.nodes.values() if gives_scalars[node.class_type]}
    if not scalars:
        return frozenset()
    costly: set[str] = set()
    for node_id in reversed(order):
        for name, value in workflow.nodes[node_id].inputs.items():
            if not (isinstance(value, list) and is_link(value) and value[0] in scalars):
                continue
            if node_id in scalars:
                matters = node_id in costly
            else:
                matters = is_costly(name, ports[node_id].get(name), None)
            if matters:
                costly.add(value[0])
    return frozenset(scalars - costly)


def _gives_scalars(node_type: NodeType) -> bool:
    return bool(node_type.outputs) and all(port.type in SCALAR_TYPES for port in node_type.outputs)


def _label(node: Node, ports: Ports, known: Mapping[str, bytes], *, plain: bool) -> bytes:
    parts = [_framed(node.class_type)]
    for name in sorted(node.inputs):
        value = node.inputs[name]
        if isinstance(value, list) and is_link(value):
            source = known.get(value[0], b"").hex()
            parts.append(f"{_framed(name)}<{source}.{value_text(value[1])}")
            continue
        value = unwrap(value)
        if not plain and (is_costly(name, ports.get(name), value) or halves_the_work(name, value)):
            parts.append(f"{_framed(name)}={value_text(value)}")
    text = "".join(parts).encode("utf-8", "surrogatepass")
    return blake2b(text, digest_size=DIGEST_SIZE).digest()


def _framed(text: str) -> str:
    """The text with its length before it, so that no text can look like two."""
    return f"{len(text)}:{text}"


def value_text(value: Any) -> str:
    """A short text that is the same for 20 and 20.0; bounded whatever the value is."""
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, float):
        if not isfinite(value):
            return str(value)
        if not value.is_integer():
            return repr(value)
        value = int(value)
    if isinstance(value, int):
        return str(value) if value.bit_length() <= MOST_BITS else f"i{value.bit_length()}"
    if isinstance(value, str):
        return _framed(value[:LONGEST_VALUE]) + str(len(value))
    # A list or an object may be nested without end: that it is there is all that counts.
    return type(value).__name__ + (str(len(value)) if isinstance(value, list | dict) else "")
