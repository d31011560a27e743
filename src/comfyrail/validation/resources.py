"""Stage 4: what a run needs against what the workers have."""

from collections.abc import Sequence

from comfyrail.validation.context import ValidationContext
from comfyrail.validation.findings import Finding
from comfyrail.validation.fleet_fit import WorkerFit, lacks_of, worker_fits
from comfyrail.validation.node_checks import ExaminedNode
from comfyrail.workflow.capabilities import GIBIBYTE, ResourceNeeds
from comfyrail.workflow.graph import Workflow

MOST_WORKERS = 20
MOST_DESCRIBED = 3


def check_resources(
    workflow: Workflow, examined: Sequence[ExaminedNode], context: ValidationContext
) -> list[Finding]:
    """An error when no single worker has all that the workflow needs; none without workers."""
    needs = None if context.needs is None else context.needs(workflow)
    findings = [] if needs is None else _check_time(needs, context.policy.limits.max_seconds)
    unfit: list[WorkerFit] = []
    for fit in worker_fits(examined, context, needs):
        if fit.can_run:
            return findings
        unfit.append(fit)
    return [*findings, _no_worker(unfit, needs)] if unfit else findings


def _check_time(needs: ResourceNeeds, allowed: float | None) -> list[Finding]:
    if allowed is None or needs.seconds <= allowed:
        return []
    return [
        Finding(
            "resources",
            "error",
            "INSUFFICIENT_RESOURCES",
            f"The workflow would run for about {needs.seconds:,.0f} s; {allowed:,.0f} s are "
            "allowed.",
            details={"seconds": needs.seconds, "allowed_seconds": allowed},
        )
    ]


def _no_worker(unfit: Sequence[WorkerFit], needs: ResourceNeeds | None) -> Finding:
    described = " ".join(f"{fit.worker_id}: {_describe(fit)}." for fit in unfit[:MOST_DESCRIBED])
    more = len(unfit) - MOST_DESCRIBED
    rest = f" And {more} more: see the details." if more > 0 else ""
    return Finding(
        "resources",
        "error",
        "INSUFFICIENT_RESOURCES",
        f"No worker has all that the workflow needs. {described}{rest}",
        details={
            "workers": lacks_of(unfit, MOST_WORKERS),
            "worker_count": len(unfit),
            "needs": None
            if needs is None
            else {
                "video_memory": needs.video_memory,
                "memory": needs.memory,
                "disk": needs.disk,
                "seconds": needs.seconds,
            },
        },
    )


def _describe(fit: WorkerFit) -> str:
    parts: list[str] = []
    if fit.missing_node_types:
        parts.append(f"no node type {_listed(fit.missing_node_types)}")
    if fit.missing_models:
        parts.append(f"no model {_listed([model.name for model in fit.missing_models])}")
    if fit.refused_values:
        places = [f"{each.node_id}.inputs.{each.input}" for each in fit.refused_values]
        parts.append(f"does not take the value of {_listed(places)}")
    for amount, kind in (
        (fit.short_by.video_memory, "video memory"),
        (fit.short_by.memory, "memory"),
        (fit.short_by.disk, "disk"),
    ):
        if amount:
            parts.append(f"{amount / GIBIBYTE:,.1f} GiB of {kind} too few")
    return "; ".join(parts)


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(f"'{name[:80]}'" for name in names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"
