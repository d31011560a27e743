"""What the engine may know of nodes that take no time."""

from typing import Any

from comfyrail.engine.resources.needs import ResourceNeeds

CHEAP: dict[str, Any] = {
    "is_cheap": True,
    "needs": ResourceNeeds(cpu_cores=0, memory_mb=0, disk_space_mb=0, network_bandwidth_mbps=0),
}
"""For nodes that are done in microseconds: they need not wait for a core."""
