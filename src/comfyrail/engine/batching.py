"""Join calls of one node type that differ in one image only: one call over all of them [12.8].

Worth it for small images alone, where a call costs more than its work: joining copies.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from comfyrail.engine.caching.result import Slot
from comfyrail.engine.definition import NodeDefinition, NodeResult
from comfyrail.engine.invoke import Invocation
from comfyrail.engine.keys import as_text
from comfyrail.engine.live_graph import BoundNode

MOST_JOINED = 64
LARGEST_IMAGE_BYTES = 1 << 18


def can_be_joined(definition: NodeDefinition) -> bool:
    """Whether calls of this type can stand for one another: each must be a call and nothing else,
    which knows neither its node nor its place.
    """
    return (
        definition.batches is not None
        and not definition.hidden
        and not definition.takes_context
        and not definition.is_async
        and not definition.takes_lists
        and definition.instantiate is None
        and definition.timeout is None
        and definition.runs_in == "thread"
    )


def may_join(first: BoundNode, other: BoundNode) -> bool:
    """Whether two nodes differ, by the graph, in the one input that can be joined."""
    name = first.definition.batches
    return (
        first.definition is other.definition
        and name is not None
        # By their texts: 1 and True are equal, and may mean different things.
        and as_text(first.literals) == as_text(other.literals) is not None
        and first.links.keys() == other.links.keys()
        and all(first.links[each] == other.links[each] for each in first.links if each != name)
    )


def image_of(node: BoundNode, inputs: Mapping[str, Slot]) -> "np.ndarray[Any, Any] | None":
    """The image by which calls of this node may be joined, if it is small and alone."""
    slot = inputs.get(node.definition.batches or "", ())
    if any(len(each) != 1 for each in inputs.values()) or len(slot) != 1:
        return None
    image = slot[0]
    if not isinstance(image, np.ndarray) or image.ndim == 0 or len(image) == 0:
        return None
    return image if image.nbytes <= LARGEST_IMAGE_BYTES else None


def fits(first: "np.ndarray[Any, Any]", other: "np.ndarray[Any, Any]") -> bool:
    return bool(first.shape[1:] == other.shape[1:] and first.dtype == other.dtype)


def join_calls(invocation: Invocation, images: Sequence["np.ndarray[Any, Any]"]) -> Invocation:
    """The invocation with all images in place of its own."""
    name = invocation.definition.batches or ""
    return msgspec.structs.replace(
        invocation, inputs={**invocation.inputs, name: (np.concatenate(images),)}
    )


def split_results(
    results: Sequence[NodeResult], images: Sequence["np.ndarray[Any, Any]"]
) -> list[list[NodeResult]] | None:
    """What each of the joined calls would have given; None where it cannot be told apart."""
    if len(results) != 1 or results[0].ui is not None or results[0].expand is not None:
        return None
    counts = [len(image) for image in images]
    total = sum(counts)
    parts: list[list[Any]] = [[] for _ in counts]
    ends = np.cumsum(counts)[:-1]
    for value in results[0].outputs:
        if not isinstance(value, np.ndarray) or value.ndim == 0 or len(value) != total:
            return None
        for part, piece in zip(parts, np.split(value, ends), strict=True):
            # A view would keep all of them alive as long as one is.
            part.append(piece.copy())
    return [[NodeResult(tuple(part))] for part in parts]
