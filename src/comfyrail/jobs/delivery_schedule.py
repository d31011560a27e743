"""When something that could not be told is tried again [9.3]. Pure."""

from collections.abc import Sequence

ACCOUNT_DELAYS = (1.0, 5.0, 30.0, 120.0, 600.0, 3600.0, 21_600.0, 86_400.0)
"""Seconds before each further try at an endpoint of an account: more than a day in all."""
SPREAD = 0.2
"""By so much a delay is longer or shorter, by chance: what failed together is tried apart."""
LONGEST_DELAY = 86_400.0
MOST_DOUBLINGS = 30
UPLOAD_SECONDS = 3600.0
"""The longest that an output takes on its way to a storage of the caller's own."""


def delays_of_job(max_retries: int, retry_delay: float) -> Sequence[float]:
    """Those of a job's own webhook: each twice as long as the one before."""
    return [
        min(retry_delay * 2.0 ** min(number, MOST_DOUBLINGS), LONGEST_DELAY)
        for number in range(max_retries)
    ]


def delay_after(
    failures: int, delays: Sequence[float], chance: float, retry_after: float | None
) -> float | None:
    """Seconds from the last of so many failures to the next try; None: there is none.

    `chance` is from 0 to 1. Where the other side asks for more time it gets it, up to a day.
    """
    if failures > len(delays):
        return None
    delay = delays[failures - 1] * (1 + SPREAD * (2 * chance - 1))
    return max(delay, min(retry_after or 0.0, LONGEST_DELAY))


def patience(delays: Sequence[float], timeout: float) -> float:
    """Seconds after which every try has been made, however they went."""
    return sum(delays) * (1 + SPREAD) + (len(delays) + 1) * timeout
