"""What went wrong on a worker, in words for the person who submitted the job."""

from comfyrail.fleet.comfyui.history import NodeFailure
from comfyrail.jobs.faults import Fault


def node_failed(failure: NodeFailure) -> Fault:
    return Fault(
        "execution",
        "NODE_FAILED",
        f"Node '{failure.node_id}' ({failure.node_type}) failed: {failure.message}",
        {
            "node_id": failure.node_id,
            "node_type": failure.node_type,
            "exception_type": failure.exception_type,
        },
    )


def timed_out(limit_seconds: float) -> Fault:
    return Fault(
        "timeout",
        "EXECUTION_TIMEOUT",
        f"The job ran longer than its timeout of {limit_seconds:g} s and was stopped. "
        "Give it more with 'timeout' (at most 86400), or make it smaller.",
        {"timeout": limit_seconds},
    )


def unexplained() -> Fault:
    return Fault(
        "execution",
        "EXECUTION_FAILED",
        "The worker says that the job failed, but not why. Its log may say more.",
    )


def interrupted() -> Fault:
    return Fault(
        "execution",
        "INTERRUPTED",
        "Someone interrupted the job on its worker. Submit it again.",
    )
