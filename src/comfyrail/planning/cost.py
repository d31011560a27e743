"""What a run costs [3.4]: seconds by the device's rate, more for more memory."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite

from comfyrail.workflow.capabilities import GIBIBYTE

REFERENCE_MEMORY = 24 * GIBIBYTE
"""The 24 GB of an RTX 4090, which are binary gigabytes as makers of GPUs count them."""
MEMORY_SHARE = 0.5
DEFAULT_RATE = 0.0005
"""Dollars a second of an RTX 4090."""


@dataclass(frozen=True, slots=True)
class CostRates:
    """Dollars a second by a part of the device's name, in any case; the longest part that fits
    counts. A device that no part fits, or that a worker does not name, costs `unknown`: better
    too much than nothing. A CPU costs `cpu`.
    """

    by_name: Mapping[str, float] = field(default_factory=lambda: {"RTX 4090": DEFAULT_RATE})
    unknown: float = DEFAULT_RATE
    cpu: float = 0.0

    def rate_of(self, device: str | None) -> float:
        name = (device or "").casefold()
        fitting = [part for part in self.by_name if part.casefold() in name]
        if fitting:
            return self.by_name[max(fitting, key=len)]
        return self.cpu if name.startswith("cpu") else self.unknown


def cost_of(seconds: float, device: str | None, peak_memory_bytes: int, rates: CostRates) -> float:
    """Dollars: `seconds x rate x (1 + 0.5 x peak memory / 24 GB)`."""
    if not isfinite(seconds) or seconds <= 0:
        return 0.0
    share = max(0, peak_memory_bytes) / REFERENCE_MEMORY
    return seconds * rates.rate_of(device) * (1 + MEMORY_SHARE * share)
