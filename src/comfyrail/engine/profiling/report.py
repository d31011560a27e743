"""What became of one execution, measured, and the forms in which it is told."""

import json
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from comfyrail.engine.profiling.folded import fold
from comfyrail.engine.profiling.gantt import draw
from comfyrail.engine.profiling.json_form import as_plain_data
from comfyrail.engine.profiling.lanes import lane_order
from comfyrail.engine.profiling.node_profile import NodeProfile
from comfyrail.engine.profiling.table import ProfileTable, tabulate


@dataclass(frozen=True)
class ProfileReport:
    execution_id: str
    outcome: str
    """`completed`, `failed` or `interrupted`."""
    message: str | None
    """Why it failed."""
    strategy: str
    wall_seconds: float
    cpu_seconds: float
    """Of the whole process, all threads together."""
    highest_memory_bytes: int
    """The most that the process has ever had."""
    critical_seconds: float
    critical_path: tuple[str, ...]
    nodes: tuple[NodeProfile, ...]
    """Those that ran, in the order in which they began; then those whose results were known."""

    @cached_property
    def node_seconds(self) -> float:
        """The time of all nodes together."""
        return sum(node.seconds for node in self.nodes)

    @property
    def parallelism(self) -> float:
        """How many nodes were at work at once, on average."""
        return self.node_seconds / self.wall_seconds if self.wall_seconds else 0.0

    @cached_property
    def counts(self) -> dict[str, int]:
        """How many nodes ended in which way."""
        found = Counter(node.status for node in self.nodes)
        return {status: found[status] for status in STATUSES}

    @cached_property
    def lanes(self) -> list[str]:
        """Where nodes were at work, the executing thread first."""
        found = {each.lane for node in self.nodes for each in node.stretches}
        return sorted(found, key=lane_order)

    def as_table(self, most_rows: int | None = None) -> ProfileTable:
        """The nodes that took longest first; what is beyond `most_rows` is one row."""
        return tabulate(self, most_rows)

    def as_dict(self) -> dict[str, Any]:
        """Plain data, in the shape of docs/how-to/profile-a-workflow.md."""
        return as_plain_data(self)

    def as_json(self) -> str:
        return json.dumps(self.as_dict(), indent=2, allow_nan=False)

    def as_svg(self, title: str = "") -> str:
        """A picture of who was at work when, as the text of an SVG file."""
        return draw(self, title)

    def as_folded(self) -> str:
        """Stacks of node types with microseconds, as programs for flame graphs read them."""
        return fold(self)


STATUSES = ("completed", "cached", "failed", "interrupted")
