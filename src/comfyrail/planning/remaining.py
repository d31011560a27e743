"""Seconds left of a running job [6.5]."""

MINIMUM_REMAINING_SECONDS = 5.0
LEAST_PROGRESS = 0.05
"""Below this a job has not shown its pace yet."""
FULL_TRUST = 0.5
"""From this progress on only the job's own pace counts."""


def remaining_seconds(
    elapsed: float, progress: float, expected: float, *, load: float = 0.0
) -> float:
    """The further a job is, the more its own pace counts, and the less what was expected.

    `progress` is weighted by cost. `load` is how much other work slows the worker: at 1 all takes
    twice as long. The pace of the job has that in it already.
    """
    progress = min(max(progress, 0.0), 1.0)
    expected *= 1 + max(load, 0.0)
    by_expectation = expected - max(elapsed, progress * expected)
    if progress < LEAST_PROGRESS:
        return max(MINIMUM_REMAINING_SECONDS, by_expectation)
    by_pace = elapsed * (1 - progress) / progress
    trust = min(1.0, progress / FULL_TRUST)
    blended = trust * by_pace + (1 - trust) * max(0.0, by_expectation)
    return max(MINIMUM_REMAINING_SECONDS, blended)
