"""What is to be different when a failed attempt is tried again [7.2], as far as its worker and its
graph say it. Whether it is tried again is decided in `comfyrail.jobs.recovery`.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import structlog

from comfyrail.errors import ComfyrailError
from comfyrail.ids import TenantId, WorkerId
from comfyrail.jobs.job import Attempt
from comfyrail.jobs.needs import JobNeeds
from comfyrail.jobs.outcome import Failed, Lost
from comfyrail.jobs.recovery import RecoveryKind, Remedy

DISK_FULL = "WORKER_DISK_FULL"

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Mended:
    """What a second look at a graph has found.

    `prompt` is the graph with what could be put right, None where there was nothing, `needs` what
    it asks of a worker; `findings` is what is wrong with it and could not be.
    """

    prompt: bytes | None = None
    node_count: int | None = None
    needs: JobNeeds | None = None
    changes: tuple[str, ...] = ()
    findings: Sequence[Mapping[str, Any]] = ()


class Mender(Protocol):
    async def mend(self, tenant: TenantId, prompt: Mapping[str, Any]) -> Mended:
        """Check a graph again against the fleet as it is now, and put right what can be."""
        ...


class NoMender:
    """Finds nothing wrong with any graph."""

    async def mend(self, tenant: TenantId, prompt: Mapping[str, Any]) -> Mended:
        del tenant, prompt
        return Mended()


async def no_trouble() -> bool:
    return False


class Remedies:
    """Of one worker. `video_memory` says how much it has, in bytes; `is_disk_in_trouble` whether
    the disk that it shares with the server is full, or cannot be written.
    """

    def __init__(
        self,
        worker_id: WorkerId,
        video_memory: Callable[[], int | None],
        mender: Mender,
        is_disk_in_trouble: Callable[[], Awaitable[bool]] = no_trouble,
    ) -> None:
        self._worker_id = worker_id
        self._video_memory = video_memory
        self._mender = mender
        self._is_disk_in_trouble = is_disk_in_trouble

    async def complete(self, failed: Failed, attempt: Attempt) -> Failed | Lost:
        """The failure with its remedy worked out; without one where it would be of no use. What
        failed because the server's own disk is full has not failed: it waits until that is over.
        """
        remedy = failed.remedy
        if attempt.cancel_requested:
            return failed
        if failed.fault.code == DISK_FULL and await self._is_disk_in_trouble():
            return Lost("the disk of the server is full", counted=False)
        if remedy is None:
            return failed
        match remedy.kind:
            case RecoveryKind.MENDED | RecoveryKind.AGAIN:
                return await self._look_again(failed, remedy, attempt)
            case RecoveryKind.LESS_MEMORY:
                remedy = replace(remedy, above_memory=self._video_memory() or 0)
            case RecoveryKind.ELSEWHERE | RecoveryKind.MORE_TIME:
                pass
        return replace(failed, remedy=replace(remedy, avoid=self._worker_id))

    async def _look_again(self, failed: Failed, remedy: Remedy, attempt: Attempt) -> Failed:
        mended = await self._mend(attempt)
        if mended.prompt is not None:
            remedy = Remedy(
                RecoveryKind.MENDED,
                prompt=mended.prompt,
                node_count=mended.node_count,
                needs=mended.needs,
                changes=mended.changes,
            )
            return replace(failed, remedy=remedy)
        if mended.findings:
            details = {**failed.fault.details, "findings": list(mended.findings)}
            fault = replace(failed.fault, details=details)
            return replace(failed, fault=fault, remedy=None)
        if remedy.kind is RecoveryKind.AGAIN:
            return replace(failed, remedy=replace(remedy, avoid=self._worker_id))
        return replace(failed, remedy=None)

    async def _mend(self, attempt: Attempt) -> Mended:
        try:
            return await self._mender.mend(attempt.tenant, attempt.prompt)
        except ComfyrailError as error:
            log.warning("not_checked_again", job_id=attempt.job_id, error=error.message)
        except Exception:  # the attempt has failed in any case: that must be written
            log.exception("not_checked_again", job_id=attempt.job_id)
        return Mended()
