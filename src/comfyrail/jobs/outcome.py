"""How an attempt ended, as a value, and what becomes of the job then."""

from dataclasses import dataclass
from typing import assert_never

from comfyrail.jobs.faults import Fault, worker_lost
from comfyrail.jobs.job import Job, NewOutput
from comfyrail.jobs.states import AttemptState, JobState

MAXIMUM_RETRIES = 3


@dataclass(frozen=True, slots=True)
class Completed:
    outputs: tuple[NewOutput, ...]


@dataclass(frozen=True, slots=True)
class Failed:
    """The attempt failed; outputs that were ready before are kept and marked as partial."""

    fault: Fault
    outputs: tuple[NewOutput, ...] = ()


@dataclass(frozen=True, slots=True)
class Cancelled:
    outputs: tuple[NewOutput, ...] = ()


@dataclass(frozen=True, slots=True)
class Lost:
    """Nobody knows how it ended. `counted`: it uses up one of the job's retries.

    It does not count when the server itself was restarted: that says nothing about the job.
    """

    cause: str
    counted: bool = True


Outcome = Completed | Failed | Cancelled | Lost


@dataclass(frozen=True, slots=True)
class Conclusion:
    """What an outcome makes of the attempt and of its job."""

    attempt_state: AttemptState
    job_state: JobState
    fault: Fault | None = None
    reason: str | None = None
    retries: int = 0
    outputs: tuple[NewOutput, ...] = ()


def conclude(job: Job, outcome: Outcome) -> Conclusion:
    match outcome:
        case Completed(outputs):
            return Conclusion(
                AttemptState.COMPLETED, JobState.COMPLETED, None, None, job.retries, outputs
            )
        case Failed(fault, outputs):
            return Conclusion(
                AttemptState.FAILED, JobState.FAILED, fault, None, job.retries, outputs
            )
        case Cancelled(outputs):
            return Conclusion(
                AttemptState.CANCELLED, JobState.CANCELLED, None, None, job.retries, outputs
            )
        case Lost(cause, counted):
            return _conclude_lost(job, cause, counted=counted)
        case _:
            assert_never(outcome)


def _conclude_lost(job: Job, cause: str, *, counted: bool) -> Conclusion:
    if job.cancel_requested:
        return Conclusion(AttemptState.LOST, JobState.CANCELLED, None, None, job.retries)
    retries = job.retries + (1 if counted else 0)
    if retries > MAXIMUM_RETRIES:
        fault = worker_lost(job.worker_id or "unknown", cause, retries)
        return Conclusion(AttemptState.LOST, JobState.FAILED, fault, None, job.retries)
    return Conclusion(AttemptState.LOST, JobState.QUEUED, None, "retrying", retries)
