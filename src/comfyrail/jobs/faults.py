"""Why a job or an attempt failed, in the words that a client sees."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from comfyrail.errors import Category, ComfyrailError

SUGGESTED_ACTION = "suggested_action"
"""The detail under which a fault says what can be done about it."""


@dataclass(frozen=True, slots=True)
class Fault:
    """`retry_after`: seconds after which submitting the job again may help."""

    category: Category
    code: str
    message: str
    details: Mapping[str, Any] = field(default_factory=dict)
    retry_after: float | None = None

    @classmethod
    def of(cls, error: ComfyrailError) -> "Fault":
        return cls(error.category, error.code, error.message, error.details, error.retry_after)

    @property
    def suggested_action(self) -> str | None:
        """What the owner of the job can do, in a sentence."""
        action = self.details.get(SUGGESTED_ACTION)
        return action if isinstance(action, str) else None


def queue_timeout(seconds: float) -> Fault:
    return Fault(
        "timeout",
        "QUEUE_TIMEOUT",
        f"No worker took the job within {seconds:g} s. See that workers are up and can run it, "
        "then submit it again, with a higher priority or a longer queue_timeout.",
        {
            "queue_timeout": seconds,
            SUGGESTED_ACTION: "See that workers are up and can run it, then submit it again, with "
            "a higher priority or a longer queue_timeout.",
        },
    )


def worker_lost(worker_id: str, cause: str, attempts: int) -> Fault:
    return Fault(
        "system",
        "WORKER_LOST",
        f"The job lost its worker {attempts} times, the last time '{worker_id}' ({cause}). "
        "The job may be what ends them: look at the workers' logs before you submit it again.",
        {
            "worker_id": worker_id,
            "cause": cause,
            SUGGESTED_ACTION: "Look at the workers' logs: the job may be what ends them.",
        },
    )
