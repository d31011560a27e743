"""What went wrong on a worker, in words for the person who submitted the job."""

from comfyrail.fleet.comfyui.history import NodeFailure
from comfyrail.jobs.faults import Fault

OUT_OF_MEMORY_TYPES = frozenset({"OutOfMemoryError", "MemoryError", "_ArrayMemoryError"})
OUT_OF_MEMORY_TEXTS = (
    "out of memory",
    "can't allocate memory",
    "would exceed allowed memory",
    "cublas_status_alloc_failed",
    "unable to allocate",
)
DISK_FULL_TEXTS = ("no space left on device", "disk quota exceeded", "errno 28]", "errno 122]")


def node_failed(failure: NodeFailure) -> Fault:
    """A node's own error, or what it lacked: memory and disk say more than the node's name."""
    node = f"Node '{failure.node_id}' ({failure.node_type})"
    details = {
        "node_id": failure.node_id,
        "node_type": failure.node_type,
        "exception_type": failure.exception_type,
        "exception_message": failure.message,
    }
    if _is_out_of_memory(failure):
        return Fault(
            "resource",
            "OUT_OF_MEMORY",
            f"{node} ran out of memory on its worker: {failure.message} "
            "Make the pictures smaller or fewer at once, use a smaller or quantized model, "
            "or run it on a worker with more memory.",
            details,
        )
    if _is_disk_full(failure):
        return Fault(
            "resource",
            "WORKER_DISK_FULL",
            f"{node} could not write: the disk of its worker is full ({failure.message}). "
            "Make room there, then submit the job again.",
            details,
        )
    return Fault("execution", "NODE_FAILED", f"{node} failed: {failure.message}", details)


def _is_out_of_memory(failure: NodeFailure) -> bool:
    if failure.exception_type.rpartition(".")[2] in OUT_OF_MEMORY_TYPES:
        return True
    # Libraries that have no such type say it in a RuntimeError.
    is_plain = failure.exception_type.rpartition(".")[2] in {"RuntimeError", "AcceleratorError"}
    message = failure.message.lower()
    return is_plain and any(text in message for text in OUT_OF_MEMORY_TEXTS)


def _is_disk_full(failure: NodeFailure) -> bool:
    message = failure.message.lower()
    return any(text in message for text in DISK_FULL_TEXTS)


def output_too_large(node_id: str, name: str, limit: int) -> Fault:
    return Fault(
        "execution",
        "OUTPUT_TOO_LARGE",
        f"What node '{node_id}' shows as '{name}' is longer than {limit >> 10} KiB and was not "
        "kept. Let the node write it to a file.",
        {"node_id": node_id, "name": name},
    )


def too_many_values(count: int, kept: int) -> Fault:
    return Fault(
        "execution",
        "TOO_MANY_OUTPUTS",
        f"The nodes show {count} texts and values; the first {kept} were kept.",
        {"count": count, "kept": kept},
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
