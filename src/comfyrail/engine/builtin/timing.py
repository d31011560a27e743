"""Nodes that take time and nothing else: for tests and demonstrations."""

import math
import time
from typing import Any

from comfyrail.engine.context import NodeContext
from comfyrail.engine.definition import node

REPORT_INTERVAL_SECONDS = 0.05


@node(
    "Delay",
    required={
        "value": ("*", {}),
        "seconds": ("FLOAT", {"default": 1.0, "min": 0.0, "max": 3600.0, "step": 0.05}),
    },
    outputs=("*",),
    category="comfyrail",
    description="Passes a value through after some seconds.",
    # A result from the cache would come at once.
    cacheable=False,
)
def delay(value: Any, seconds: float, context: NodeContext) -> tuple[Any]:
    steps = math.ceil(seconds / REPORT_INTERVAL_SECONDS)
    start = time.monotonic()
    for step in range(1, steps + 1):
        until = start + min(step * REPORT_INTERVAL_SECONDS, seconds)
        context.sleep(max(0.0, until - time.monotonic()))
        context.progress(step, steps)
    return (value,)


NODES = (delay,)
