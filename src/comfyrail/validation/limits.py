"""Limits on what a workflow asks for: nodes, sizes of images, batches, steps, texts, bytes."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from comfyrail.validation.findings import Finding
from comfyrail.validation.node_checks import ExaminedNode
from comfyrail.validation.policy import WorkflowLimits
from comfyrail.workflow.catalog import InputPort, NodeCatalog, NodeType
from comfyrail.workflow.graph import Node
from comfyrail.workflow.values import unwrap

EXAMINED_NODES = 10_000
"""A workflow that has more nodes than this, and more than it may have, is not looked at further."""
LARGEST_EXACT = 1 << 53
_BYTES_OF_NODE = 30
_BYTES_OF_INPUT = 10

_BATCHES = frozenset((("RepeatLatentBatch", "amount"), ("RepeatImageBatch", "amount")))
_WORDS = {"width": "max_image_side", "height": "max_image_side"}
_NAMES = {"batch_size": "max_batch_size", "steps": "max_steps", "megapixels": "max_image_pixels"}
_MEASURES = {
    "max_image_side": "pixels on a side",
    "max_image_pixels": "pixels in an image",
    "max_batch_size": "items in a batch",
    "max_steps": "steps",
}


@dataclass(frozen=True, slots=True)
class Amounts:
    """The inputs of a node type that are limited, by the name of the limit."""

    limits: Mapping[str, str]


def prepare_amounts(node_type: NodeType) -> Amounts:
    return _amounts_of(node_type.name, node_type.inputs)


def check_node_count(nodes: int, limits: WorkflowLimits) -> list[Finding]:
    if limits.max_nodes is None or nodes <= limits.max_nodes:
        return []
    return [_exceeded("max_nodes", limits.max_nodes, nodes, f"The workflow has {nodes:,} nodes")]


def check_amounts(
    examined: Sequence[ExaminedNode], catalog: NodeCatalog, limits: WorkflowLimits
) -> Iterator[Finding]:
    """Numbers that stand in the nodes themselves; those that come through links cannot be seen."""
    prepared = catalog.prepared(prepare_amounts)
    for each in examined:
        amounts = prepared[each.node.class_type]
        if amounts is None:
            amounts = _UNKNOWN
        elif each.check is not None and each.check.is_dynamic:
            amounts = _amounts_of(each.node.class_type, each.check.ports)
        for name, limit in amounts.limits.items():
            value = each.node.inputs.get(name)
            if value is not None and type(value) is not list:
                yield from _judge(each.node, name, limit, value, limits)


def check_sizes(examined: Sequence[ExaminedNode], limits: WorkflowLimits) -> Iterator[Finding]:
    """How long texts are, and how much the whole has at least as JSON."""
    longest = limits.max_string_length
    total = 0
    for each in examined:
        inputs = each.node.inputs
        total += _BYTES_OF_NODE + _BYTES_OF_INPUT * len(inputs)
        for name, value in inputs.items():
            kind = type(value)
            if kind is str:
                total += len(value)
                if longest is not None and len(value) > longest:
                    yield _too_long(each.node, name, len(value), longest)
            elif kind is dict:
                total += text_length(value)
    if limits.max_workflow_bytes is not None and total > limits.max_workflow_bytes:
        size = f"The workflow has more than {total:,} bytes"
        yield _exceeded("max_workflow_bytes", limits.max_workflow_bytes, total, size)


def text_length(value: Any) -> int:
    """Characters of all texts in a value, and one for each thing in it."""
    total, waiting = 0, [value]
    while waiting:
        each = waiting.pop()
        total += len(each) if isinstance(each, str) else 1
        if isinstance(each, dict):
            waiting.extend(each)
            waiting.extend(each.values())
        elif isinstance(each, list):
            waiting.extend(each)
    return total


def _amounts_of(class_type: str, ports: Mapping[str, InputPort]) -> Amounts:
    found: dict[str, str] = {}
    for name, port in ports.items():
        limit = _limit_of(class_type, name)
        if limit is not None and port.type in {"INT", "FLOAT"}:
            found[name] = limit
    return Amounts(found)


def largest_allowed(class_type: str, name: str, limits: WorkflowLimits) -> float | None:
    """The limit on an input's number, None where there is none."""
    limit = _limit_of(class_type, name)
    return None if limit is None else getattr(limits, limit)


def _limit_of(class_type: str, name: str) -> str | None:
    if (class_type, name) in _BATCHES:
        return "max_batch_size"
    last = name.rpartition(".")[2]
    word = last.rpartition("_")[2]
    return _NAMES.get(last) or _WORDS.get(word)


_UNKNOWN = Amounts({"width": "max_image_side", "height": "max_image_side", **_NAMES})


def _judge(
    node: Node, name: str, limit: str, value: Any, limits: WorkflowLimits
) -> Iterator[Finding]:
    number = _number(value)
    if number is None:
        return
    if name.endswith("megapixels"):
        number *= 1_000_000
    allowed = getattr(limits, limit)
    if allowed is not None and number > allowed:
        yield _too_much(node, name, limit, allowed, number)
    elif name.endswith("width"):
        yield from _judge_area(node, name, number, limits.max_image_pixels)


def _judge_area(node: Node, name: str, width: float, allowed: int | None) -> Iterator[Finding]:
    height = _number(node.inputs.get(f"{name.removesuffix('width')}height"))
    if allowed is not None and height is not None and width * height > allowed:
        yield _too_much(node, name, "max_image_pixels", allowed, width * height)


def _number(value: Any) -> float | None:
    """As ComfyUI would read it; what is none, or not finite, is a matter of syntax."""
    if type(value) is int:
        return value
    try:
        number = float(unwrap(value))
        return number if math.isfinite(number) else None
    except (TypeError, ValueError, OverflowError):
        return None


def _too_much(node: Node, name: str, limit: str, allowed: float, actual: float) -> Finding:
    text = f"Node '{node.id}', input '{name}': {actual:,.15g} {_MEASURES[limit]}"
    return _exceeded(limit, allowed, actual, text, node.id, name)


def _too_long(node: Node, name: str, length: int, allowed: int) -> Finding:
    text = f"Node '{node.id}', input '{name}': the text has {length:,} characters"
    return _exceeded("max_string_length", allowed, length, text, node.id, name)


def _exceeded(
    limit: str,
    allowed: float,
    actual: float,
    text: str,
    node_id: str | None = None,
    name: str | None = None,
) -> Finding:
    return Finding(
        "security",
        "error",
        "LIMIT_EXCEEDED",
        f"{text}; {allowed:,} are allowed (setting {limit}).",
        node_id=node_id,
        path=f"{node_id}.inputs.{name}" if name is not None else None,
        # A float where a product has more bits than JSON readers take.
        details={
            "limit": limit,
            "allowed": allowed,
            "actual": actual if actual < LARGEST_EXACT else float(actual),
        },
    )
