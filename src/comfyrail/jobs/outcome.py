"""How an attempt ended, as a value, and what becomes of the job then."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import assert_never

from comfyrail.jobs.faults import Fault, worker_lost
from comfyrail.jobs.job import Job, NewOutput
from comfyrail.jobs.recovery import RecoveryKind, Remedy, Retry, RetryRules, decide_retry
from comfyrail.jobs.states import AttemptState, JobState

RETRYING = "retrying"
"""The reason of a queued job that has been tried before."""
FREE_BOUNCES = 2
FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 30.0
_MOST_DOUBLINGS = 10


@dataclass(frozen=True, slots=True)
class Completed:
    outputs: tuple[NewOutput, ...]


@dataclass(frozen=True, slots=True)
class Failed:
    """The attempt failed; outputs that were ready before are kept and marked as partial.

    `remedy`: how it may be tried again; None: trying again would be of no use.
    """

    fault: Fault
    outputs: tuple[NewOutput, ...] = ()
    remedy: Remedy | None = None


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
    has_begun: bool = True
    """The worker may have begun it. Otherwise it has only been on its way."""
    is_suspect: bool = False
    """It may be what its worker ended of, and so may others."""


Outcome = Completed | Failed | Cancelled | Lost


@dataclass(frozen=True, slots=True)
class Past:
    """What was tried before, and the rules for trying again. `chance`: from 0 to 1; `seconds`: from
    the start of the attempt to its end.
    """

    recoveries: Mapping[RecoveryKind, int] = field(default_factory=dict)
    rules: RetryRules = field(default_factory=RetryRules)
    chance: float = 0.5
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Conclusion:
    """What an outcome makes of the attempt and of its job. `fault`: the job's, when it has failed;
    `retry`: how it goes on when it is queued again; `bounces` and `runs_alone`: see Job.
    """

    attempt_state: AttemptState
    job_state: JobState
    fault: Fault | None = None
    reason: str | None = None
    retries: int = 0
    outputs: tuple[NewOutput, ...] = ()
    retry: Retry | None = None
    bounces: int = 0
    runs_alone: bool = False


def conclude(job: Job, outcome: Outcome, past: Past | None = None) -> Conclusion:
    match outcome:
        case Completed(outputs):
            return Conclusion(
                AttemptState.COMPLETED, JobState.COMPLETED, None, None, job.retries, outputs
            )
        case Failed():
            return _conclude_failed(job, outcome, past or Past())
        case Cancelled(outputs):
            return Conclusion(
                AttemptState.CANCELLED, JobState.CANCELLED, None, None, job.retries, outputs
            )
        case Lost():
            return _conclude_lost(job, outcome, past or Past())
        case _:
            assert_never(outcome)


def _conclude_failed(job: Job, failed: Failed, past: Past) -> Conclusion:
    if job.cancel_requested and failed.remedy is not None:
        return Conclusion(
            AttemptState.FAILED, JobState.CANCELLED, None, None, job.retries, failed.outputs
        )
    retry = _decide(job, failed.remedy, past)
    if retry is not None:
        return Conclusion(
            AttemptState.FAILED,
            JobState.QUEUED,
            None,
            RETRYING,
            job.retries + 1,
            failed.outputs,
            retry,
            runs_alone=job.runs_alone,
        )
    return Conclusion(
        AttemptState.FAILED, JobState.FAILED, failed.fault, None, job.retries, failed.outputs
    )


def _conclude_lost(job: Job, lost: Lost, past: Past) -> Conclusion:
    if job.cancel_requested:
        return Conclusion(AttemptState.LOST, JobState.CANCELLED, None, None, job.retries)
    if not lost.counted:
        bounces = 0 if lost.has_begun else job.bounces + 1
        return Conclusion(
            AttemptState.LOST,
            JobState.QUEUED,
            None,
            RETRYING,
            job.retries,
            retry=Retry(max(0.0, seconds_between(bounces) - past.seconds)),
            bounces=bounces,
            runs_alone=job.runs_alone or lost.is_suspect,
        )
    retry = _decide(job, Remedy(RecoveryKind.ELSEWHERE, job.worker_id), past)
    if retry is None:
        fault = worker_lost(job.worker_id or "unknown", lost.cause, job.retries + 1)
        return Conclusion(AttemptState.LOST, JobState.FAILED, fault, None, job.retries)
    return Conclusion(
        AttemptState.LOST,
        JobState.QUEUED,
        None,
        RETRYING,
        job.retries + 1,
        retry=retry,
        runs_alone=True,
    )


def seconds_between(bounces: int) -> float:
    """From the start of an attempt that did not begin to the next one, after so many in a row: for
    whatever reason a worker does not begin what it is given, that must not go on without a rest.
    """
    if bounces <= FREE_BOUNCES:
        return 0.0
    doublings = min(_MOST_DOUBLINGS, bounces - FREE_BOUNCES - 1)
    return min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0**doublings)


def _decide(job: Job, remedy: Remedy | None, past: Past) -> Retry | None:
    return decide_retry(
        remedy, job.retries, job.max_retries, past.recoveries, past.rules, past.chance
    )
