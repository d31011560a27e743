"""Limits on what a workflow asks for: nodes, sizes of images, batches, steps, texts, bytes."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from comfyrail.validation.findings import Finding
from comfyrail.validation.meanings import meanings_of, prepare_meanings
from comfyrail.validation.node_checks import ExaminedNode
from comfyrail.validation.policy import WorkflowLimits
from comfyrail.validation.text_flow import link_in
from comfyrail.workflow.catalog import InputPort, NodeCatalog, NodeType
from comfyrail.workflow.graph import Node

EXAMINED_NODES = 10_000
"""A workflow that has more nodes than this, and more than it may have, is not looked at further."""
LARGEST_EXACT = 1 << 53
_BYTES_OF_NODE = 30
_BYTES_OF_INPUT = 10

_BY_CLASS = {
    ("RepeatLatentBatch", "amount"): "max_batch_size",
    ("RepeatImageBatch", "amount"): "max_frames",  # templates make a video of one picture so
}
_REARRANGES = "Rebatch"
"""What so begins makes no batch: it puts what there is into chunks of a size."""
_WORDS = {"width": "max_image_side", "height": "max_image_side"}
_NAMES = {
    "batch_size": "max_batch_size",
    "steps": "max_steps",
    "megapixels": "max_image_pixels",
    "video_frames": "max_frames",
    "num_frames": "max_frames",
}
_FRAMES_OF_VIDEO = "length"
"""Where a node makes images of a size; elsewhere it may be the length of anything."""
_LIMITED_NAMES = frozenset((*_WORDS, *_NAMES, _FRAMES_OF_VIDEO, "amount"))
_MEASURES = {
    "max_image_side": "pixels on a side",
    "max_image_pixels": "pixels in an image",
    "max_batch_size": "items in a batch",
    "max_frames": "frames",
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
    """Numbers that stand in the nodes, or in primitives that feed them. What is computed as the
    workflow runs cannot be seen.
    """
    prepared = catalog.prepared(prepare_amounts)
    numbers: NumberFlow | None = None
    for each in examined:
        amounts = prepared[each.node.class_type]
        if amounts is None:
            amounts = _amounts_of_unknown_type(each.node)
        elif each.check is not None and each.check.is_dynamic:
            amounts = _amounts_of(each.node.class_type, each.check.ports)
        for name, limit in amounts.limits.items():
            if each.node.inputs.get(name) is not None:
                numbers = numbers or NumberFlow(examined, catalog)
                yield from _judge(each.node, name, limit, numbers, limits)


class NumberFlow:
    """The numbers of one workflow, also those that come through nodes that pass them on."""

    def __init__(self, examined: Sequence[ExaminedNode], catalog: NodeCatalog) -> None:
        self._examined = examined
        self._prepared = catalog.prepared(prepare_meanings)
        self._given: dict[str, float | None] = {}

    @cached_property
    def _nodes(self) -> Mapping[str, Node]:
        return {each.node.id: each.node for each in self._examined}

    def largest(self, value: Any) -> float | None:
        """The largest number that an input with this value may get, as far as it is written."""
        link = None if type(value) is int else link_in(value)
        if link is None:
            return _number(value)
        waiting = [link[0]] if link[0] in self._nodes else []
        while waiting:
            values = self._passed_on(waiting[-1])
            sources = [source[0] for each in values if (source := link_in(each)) is not None]
            needed = [each for each in sources if each in self._nodes and each not in self._given]
            # Longer than there are nodes: a cycle, out of which nothing comes.
            if needed and len(waiting) <= len(self._nodes):
                waiting.append(needed[0])
            else:
                numbers = [*map(_number, values), *map(self._given.get, sources)]
                known = [number for number in numbers if number is not None]
                self._given[waiting.pop()] = max(known, default=None)
        return self._given.get(link[0])

    def _passed_on(self, node_id: str) -> list[Any]:
        node = self._nodes[node_id]
        passed = meanings_of(node, self._prepared).passed
        return [node.inputs[name] for name in passed if name in node.inputs]


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
                length, longest_inside = measure_texts(value)
                total += length
                if longest is not None and longest_inside > longest:
                    yield _too_long(each.node, name, longest_inside, longest)
    if limits.max_workflow_bytes is not None and total > limits.max_workflow_bytes:
        size = f"The workflow has more than {total:,} bytes"
        yield _exceeded("max_workflow_bytes", limits.max_workflow_bytes, total, size)


def measure_texts(value: Any) -> tuple[int, int]:
    """Characters of all texts in a value, with one for each thing in it, and of the longest."""
    total, longest, waiting = 0, 0, [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            total += len(each)
            longest = max(longest, len(each))
            continue
        total += 1
        if isinstance(each, dict):
            waiting.extend(each)
            waiting.extend(each.values())
        elif isinstance(each, list):
            waiting.extend(each)
    return total, longest


def _amounts_of(class_type: str, ports: Mapping[str, InputPort]) -> Amounts:
    found: dict[str, str] = {}
    for name, port in ports.items():
        limit = limit_on(class_type, name, ports)
        if limit is not None and port.type in {"INT", "FLOAT"}:
            found[name] = limit
    return Amounts(found)


def limit_on(class_type: str, name: str, inputs: Collection[str]) -> str | None:
    """The name of the limit on an input's number, None where there is none.

    `inputs` are all that the node has.
    """
    if (class_type, name) in _BY_CLASS:
        return _BY_CLASS[class_type, name]
    if name == _FRAMES_OF_VIDEO:
        return "max_frames" if "width" in inputs and "height" in inputs else None
    last = name.rpartition(".")[2]
    if last == "batch_size" and class_type.startswith(_REARRANGES):
        return None
    word = last.rpartition("_")[2]
    return _NAMES.get(last) or _WORDS.get(word)


def _amounts_of_unknown_type(node: Node) -> Amounts:
    names = [name for name in node.inputs if name in _LIMITED_NAMES]
    limits = {name: limit_on(node.class_type, name, node.inputs) for name in names}
    return Amounts({name: limit for name, limit in limits.items() if limit is not None})


def _judge(
    node: Node, name: str, limit: str, numbers: NumberFlow, limits: WorkflowLimits
) -> Iterator[Finding]:
    number = numbers.largest(node.inputs[name])
    if number is None:
        return
    if name.endswith("megapixels"):
        number *= 1_000_000
    allowed = getattr(limits, limit)
    if allowed is not None and number > allowed:
        yield _too_much(node, name, limit, allowed, number)
    elif name.endswith("width") and limits.max_image_pixels is not None:
        height = numbers.largest(node.inputs.get(f"{name.removesuffix('width')}height"))
        if height is not None and number * height > limits.max_image_pixels:
            area = number * height
            yield _too_much(node, name, "max_image_pixels", limits.max_image_pixels, area)


def _number(value: Any) -> float | None:
    """As ComfyUI would read it; what is none, or not finite, is a matter of syntax."""
    if type(value) is int:
        return value
    try:
        while type(value) is dict and "__value__" in value:
            value = value["__value__"]
        number = float(value)
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
