"""Faults that end no attempt: what was left out of its outputs, and what a node complains of."""

from comfyrail.fleet.classification import classify_node_failure
from comfyrail.fleet.comfyui.history import NodeFailure
from comfyrail.jobs.faults import Fault


def node_failed(failure: NodeFailure) -> Fault:
    """What a node said that failed while others went on."""
    return classify_node_failure(failure).fault


def output_too_large(node_id: str, name: str, limit: int) -> Fault:
    return Fault(
        "execution",
        "OUTPUT_TOO_LARGE",
        f"What node '{node_id}' shows as '{name}' is longer than {limit >> 10} KiB and was not "
        "kept. Let the node write it to a file.",
        {"node_id": node_id, "name": name},
    )


def output_not_converted(node_id: str, name: str, reason: str) -> Fault:
    return Fault(
        "execution",
        "OUTPUT_NOT_CONVERTED",
        f"The output '{name}' of node '{node_id}' was not converted and stays as it is. {reason}",
        {"node_id": node_id, "name": name, "reason": reason},
    )


def too_many_values(count: int, kept: int) -> Fault:
    return Fault(
        "execution",
        "TOO_MANY_OUTPUTS",
        f"The nodes show {count} texts and values; the first {kept} were kept.",
        {"count": count, "kept": kept},
    )
