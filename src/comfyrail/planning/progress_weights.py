"""How much of a job's progress each node is [6.5]."""

from collections.abc import Mapping
from math import isfinite

LEAST_SHARE = 1e-4
"""Every node moves the bar a little, also one that takes no time."""


def progress_weights(node_seconds: Mapping[str, float]) -> dict[str, float]:
    """Shares of the whole by node id: more than 0 each, 1 together."""
    seconds = {
        node_id: value if isfinite(value) and value > 0 else 0.0
        for node_id, value in node_seconds.items()
    }
    total = sum(seconds.values())
    if not isfinite(total) or total <= 0:
        seconds, total = dict.fromkeys(seconds, 1.0), float(len(seconds))
    raised = {node_id: value / total + LEAST_SHARE for node_id, value in seconds.items()}
    whole = sum(raised.values())
    return {node_id: value / whole for node_id, value in raised.items()}
