"""What a server says of a workflow without running it."""

from typing import Any

import msgspec


class Finding(msgspec.Struct):
    """`severity` is error, warning or hint; `stage` is syntax, semantic, security, resources or
    optimization.
    """

    stage: str
    severity: str
    error_code: str
    message: str
    node_id: str | None
    path: str | None
    details: dict[str, Any]


class Fix(msgspec.Struct):
    node_id: str
    path: str
    code: str
    before: Any
    after: Any
    message: str


class Optimization(msgspec.Struct):
    kind: str
    node_id: str
    message: str
    kept: str | None


class WorkerFit(msgspec.Struct, kw_only=True):
    """Whether a worker could run a workflow, and what it lacks; `memory` in bytes."""

    worker_id: str
    online: bool
    can_run: bool
    missing_node_types: list[str]
    missing_models: list[str]
    missing_choices: list[dict[str, Any]]
    memory: dict[str, int]


class ValidationReport(msgspec.Struct):
    valid: bool
    errors: int
    warnings: int
    hints: int
    findings: list[Finding]
    unchecked: list[str]
    """Stages that were not run because an earlier one found errors."""
    fixes: list[Fix]
    optimizations: list[Optimization]
    workers: list[WorkerFit]
    workflow: dict[str, Any] | None
    nodes: int


class PlannedModel(msgspec.Struct):
    folder: str
    name: str
    node_id: str
    size: int
    size_known: bool


class PlannedResources(msgspec.Struct):
    video_memory: int
    memory: int
    disk: int


class PlannedDuration(msgspec.Struct):
    """Seconds; `source` is history or heuristic."""

    seconds: float
    low: float
    high: float
    source: str
    similar: int
    median_error: float | None


class PlannedLoad(msgspec.Struct):
    folder: str
    name: str
    size: int
    seconds: float


class WorkerPlan(WorkerFit, kw_only=True):
    device: str | None
    warm_models: list[str]
    loads: list[PlannedLoad]
    load_seconds: float
    duration: PlannedDuration
    cost: float


class Plan(msgspec.Struct):
    """Costs in US dollars, sizes in bytes."""

    signature: str
    nodes: int
    complexity: float
    levels: list[list[str]]
    width: int
    models: list[PlannedModel]
    resources: PlannedResources
    duration: PlannedDuration
    cost: float
    node_seconds: dict[str, float]
    workers: list[WorkerPlan]
    findings: list[Finding]


class ConversionNote(msgspec.Struct):
    """What a conversion could not do, or did with a guess."""

    code: str
    message: str
    node_id: str | None
    details: dict[str, Any]


class Converted(msgspec.Struct):
    workflow: dict[str, Any]
    notes: list[ConversionNote]


class NodeSummary(msgspec.Struct, kw_only=True):
    name: str
    display_name: str | None
    category: str
    output_node: bool
    workers: list[str]


class NodeInput(msgspec.Struct):
    name: str
    type: str
    required: bool
    default: Any
    choices: list[Any] | None
    minimum: float | None
    maximum: float | None


class NodeOutput(msgspec.Struct):
    name: str
    type: str
    is_list: bool


class NodeDifference(msgspec.Struct):
    kind: str
    input: str | None


class NodeType(NodeSummary, kw_only=True):
    inputs: list[NodeInput]
    outputs: list[NodeOutput]
    differences: list[NodeDifference]
    schema: dict[str, Any]


class NodePage(msgspec.Struct):
    nodes: list[NodeSummary]
    next_cursor: str | None
