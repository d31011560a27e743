"""Find ready nodes whose calls can be joined, and run them in one call."""

import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import structlog

from comfyrail.engine.batching import (
    MOST_JOINED,
    can_be_joined,
    fits,
    image_of,
    join_calls,
    may_join,
    split_results,
)
from comfyrail.engine.caching.result import CachedResult, Slot
from comfyrail.engine.invoke import join_results
from comfyrail.engine.live_graph import BoundNode
from comfyrail.engine.run_parts import RunParts

log = structlog.get_logger(__name__)


Member = tuple[BoundNode, Mapping[str, Slot]]


class JoinedNode(NamedTuple):
    node: BoundNode
    inputs: Mapping[str, Slot]
    result: CachedResult


class JoinedCalls:
    """For one execution."""

    def __init__(self, parts: RunParts) -> None:
        self._parts = parts

    def members(self, node: BoundNode, inputs: Mapping[str, Slot]) -> list[Member]:
        """A node and others that are ready and alike, which are taken out of the plan; nothing
        where there are none.
        """
        alike = self._take_alike(node, inputs) if can_be_joined(node.definition) else []
        return [(node, inputs), *alike] if alike else []

    def run(self, members: Sequence[Member]) -> list[JoinedNode] | None:
        """Run them in one call, in any thread. None where that does not work out: then each runs
        alone, and shows its own fault.
        """
        node, inputs = members[0]
        images = [image for each in members if (image := image_of(*each)) is not None]
        began = time.perf_counter()
        try:
            joined = join_calls(self._parts.invocations.make(node, inputs), images).run()
            split = split_results(joined, images)
        except Exception as error:  # noqa: BLE001 - it may be the fault of one of them
            log.debug("joined_call_failed", node_type=node.definition.name, error=str(error))
            split = None
        if split is None:
            return None
        seconds = (time.perf_counter() - began) / len(members)
        return [
            JoinedNode(member, given, join_results(member.definition, results, seconds))
            for (member, given), results in zip(members, split, strict=True)
        ]

    def _take_alike(self, node: BoundNode, inputs: Mapping[str, Slot]) -> Sequence[Member]:
        """Nodes like this one, taken out of the plan, with their inputs."""
        parts = self._parts
        image = image_of(node, inputs)
        if image is None:
            return []
        found: dict[str, Mapping[str, Slot]] = {}

        def is_alike(node_id: str) -> bool:
            other = parts.graph[node_id]
            if not may_join(node, other) or parts.is_taken(node_id):
                return False
            gathered = parts.invocations.gather(other, ())
            other_image = None if isinstance(gathered, list) else image_of(other, gathered)
            if isinstance(gathered, list) or other_image is None or not fits(image, other_image):
                return False
            found[node_id] = gathered
            return True

        taken = parts.plan.take_ready(is_alike, MOST_JOINED - 1)
        return [(parts.graph[node_id], found[node_id]) for node_id in taken]
