"""How slow each device is, and on which one a job is likely to run before one is chosen."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from comfyrail.planning.node_kinds import NodeKind
from comfyrail.planning.node_work import NodeWork
from comfyrail.planning.records import ExecutionRecord, NodeRun

MEMORY = 0.98
"""What an execution still counts after the next one on its device: they heat up, they age."""
SHRINKAGE = 1.0
"""As much as one execution that went as expected."""
LARGEST_RESIDUAL = 1.2
"""A run that took 3.3 times as long as expected says no more about the device than that."""
RECENT = 15
"""Executions that tell where jobs go."""


@dataclass(frozen=True, slots=True)
class DeviceSpeeds:
    """Logarithms of factors: 0 is usual, 0.7 takes twice as long."""

    slowness: Mapping[str, float] = field(default_factory=dict)
    usual: float = 0.0
    by_model: Mapping[str, float] = field(default_factory=dict)
    """Where the latest jobs with a model ran: a scheduler likes to send the next ones there."""

    def of_device(self, device: str) -> float:
        return self.slowness.get(device, self.usual)

    def expected(self, nodes: Iterable[NodeWork | NodeRun]) -> float:
        """For a job that has no worker yet."""
        for node in nodes:
            if node.kind is NodeKind.SAMPLER and node.model is not None:
                return self.by_model.get(node.model, self.usual)
        return self.usual


def learn_speeds(records: Sequence[ExecutionRecord], residuals: Sequence[float]) -> DeviceSpeeds:
    """`residuals` are the logarithms of taken to expected seconds; both from old to new."""
    total: dict[str, float] = {}
    weight: dict[str, float] = {}
    devices_of: dict[str, list[str]] = {}
    for record, residual in zip(records, residuals, strict=True):
        device = record.device
        clipped = min(max(residual, -LARGEST_RESIDUAL), LARGEST_RESIDUAL)
        total[device] = MEMORY * total.get(device, 0.0) + clipped
        weight[device] = MEMORY * weight.get(device, 0.0) + 1
        for model in _sampled_models(record):
            devices_of.setdefault(model, []).append(device)
    slowness = {device: total[device] / (weight[device] + SHRINKAGE) for device in total}
    recent = [record.device for record in records[-RECENT:]]
    return DeviceSpeeds(
        slowness,
        median(slowness[device] for device in recent) if recent else 0.0,
        {
            model: median(slowness[device] for device in devices[-RECENT:])
            for model, devices in devices_of.items()
        },
    )


def _sampled_models(record: ExecutionRecord) -> set[str]:
    return {
        node.model
        for node in record.nodes
        if node.kind is NodeKind.SAMPLER and node.model is not None
    }
