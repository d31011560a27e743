"""Why a job or an attempt failed, in the words that a client sees."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from comfyrail.errors import Category, ComfyrailError


@dataclass(frozen=True, slots=True)
class Fault:
    category: Category
    code: str
    message: str
    details: Mapping[str, Any] = field(default_factory=dict)
    retry_after: float | None = None

    @classmethod
    def of(cls, error: ComfyrailError) -> "Fault":
        return cls(error.category, error.code, error.message, error.details, error.retry_after)


def queue_timeout(seconds: float) -> Fault:
    return Fault(
        "timeout",
        "QUEUE_TIMEOUT",
        f"No worker took the job within {seconds:g} s. See that workers are up and can run it, "
        "then submit it again, with a higher priority or a longer queue_timeout.",
        {"queue_timeout": seconds},
    )


def worker_lost(worker_id: str, cause: str, attempts: int) -> Fault:
    return Fault(
        "system",
        "WORKER_LOST",
        f"The job lost its worker {attempts} times, the last time '{worker_id}' ({cause}). "
        "Look at the workers' logs, then submit it again.",
        {"worker_id": worker_id, "cause": cause},
    )
