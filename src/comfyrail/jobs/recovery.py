"""What is done about an attempt that has failed [7.2]: by which remedy it is tried again, how
often, and after what time.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from comfyrail.ids import WorkerId
from comfyrail.jobs.needs import JobNeeds

MAXIMUM_RETRIES = 3
MOST_RETRIES = 10
"""What a caller may ask for."""
LESS_MEMORY = 0.8
MORE_TIME = 1.5
LONGEST_TIMEOUT_SECONDS = 86_400.0
WORKERS_AVOIDED = 5
"""The last ones on which the job has failed."""


class RecoveryKind(StrEnum):
    """How an attempt is tried again."""

    ELSEWHERE = "another_worker"
    """On another worker, where there is one: the first time at once."""
    LESS_MEMORY = "less_memory"
    """On a larger worker, where there is one, and with a smaller need of memory."""
    MORE_TIME = "more_time"
    MENDED = "mended_workflow"
    """The graph was checked again, and what could be put right was."""
    AGAIN = "again"
    """The graph was checked again and is right: it may have been chance."""


MOST_OF_KIND: Mapping[RecoveryKind, int] = {
    RecoveryKind.LESS_MEMORY: 2,
    RecoveryKind.MORE_TIME: 1,
    RecoveryKind.AGAIN: 1,
}
"""Of the others as many as the job has retries."""


@dataclass(frozen=True, slots=True)
class RetryRules:
    """Seconds before a retry: `delay`, and `factor` times as long each further time, `spread` of it
    more or less by chance.
    """

    maximum: int = MAXIMUM_RETRIES
    delay: float = 10.0
    factor: float = 2.0
    longest: float = 300.0
    spread: float = 0.2

    def seconds_before(self, retry: int, chance: float) -> float:
        """Before the retry with this number, from 1. `chance` is between 0 and 1."""
        plain = min(self.longest, self.delay * self.factor ** (retry - 1))
        return plain * (1 + self.spread * (2 * chance - 1))


@dataclass(frozen=True, slots=True)
class Remedy:
    """How a failed attempt may be tried again, and what is different then."""

    kind: RecoveryKind
    avoid: WorkerId | None = None
    """The worker on which it has failed."""
    above_memory: int = 0
    """Bytes of video memory that were too few."""
    prompt: bytes | None = None
    """The graph with what was put right in it."""
    node_count: int | None = None
    needs: JobNeeds | None = None
    """Of that graph, and what it asks of a worker."""
    changes: tuple[str, ...] = ()
    """What was put right, in words."""

    @property
    def is_at_once(self) -> bool:
        return self.kind is RecoveryKind.ELSEWHERE


@dataclass(frozen=True, slots=True)
class Retry:
    """A decision: try again after so many seconds, by this remedy; `remedy` is None where nothing
    has failed and the job merely goes back to the queue.
    """

    delay: float = 0.0
    remedy: Remedy | None = None


def decide_retry(
    remedy: Remedy | None,
    retries: int,
    limit: int,
    earlier: Mapping[RecoveryKind, int],
    rules: RetryRules,
    chance: float,
) -> Retry | None:
    """The retry after a failure, or None where it ends the job.

    `retries` were made so far, at most `limit` are; `earlier`: by which remedies.
    """
    if remedy is None or retries >= limit:
        return None
    done = earlier.get(remedy.kind, 0)
    if done >= MOST_OF_KIND.get(remedy.kind, limit):
        return None
    if remedy.is_at_once and not done:
        return Retry(0.0, remedy)
    return Retry(rules.seconds_before(retries + (0 if remedy.is_at_once else 1), chance), remedy)


def needs_after(needs: JobNeeds, remedy: Remedy) -> JobNeeds:
    """What the job asks of its worker the next time."""
    changed = needs
    if remedy.needs is not None:
        changed = replace(
            remedy.needs,
            labels=needs.labels,
            avoided=needs.avoided,
            above_memory=needs.above_memory,
            worker=needs.worker,
        )
    if remedy.avoid is not None and remedy.kind is not RecoveryKind.LESS_MEMORY:
        avoided = [each for each in needs.avoided if each != remedy.avoid]
        changed = replace(changed, avoided=(*avoided, remedy.avoid)[-WORKERS_AVOIDED:])
    if remedy.kind is RecoveryKind.LESS_MEMORY:
        changed = replace(
            changed,
            video_memory=_lowered(needs.video_memory),
            memory=_lowered(needs.memory),
            above_memory=max(needs.above_memory, remedy.above_memory),
        )
    return changed


def timeout_after(timeout_seconds: float, remedy: Remedy) -> float:
    if remedy.kind is not RecoveryKind.MORE_TIME:
        return timeout_seconds
    return min(LONGEST_TIMEOUT_SECONDS, timeout_seconds * MORE_TIME)


def _lowered(amount: int) -> int:
    return round(amount * LESS_MEMORY)
