"""What an answer to a call means: done, to be tried again, or of no use [9.3]. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from enum import StrEnum

from comfyrail.clock import Instant
from comfyrail.jobs.delivery_schedule import LONGEST_DELAY
from comfyrail.store.notifications import FrozenBody

REFUSALS = frozenset({400, 413, 414, 415, 422})
"""This message will never be taken. All else may be a receiver that is not ready yet."""
GONE = 410


class Verdict(StrEnum):
    DELIVERED = "delivered"
    RETRY = "retry"
    """It may work later."""
    REFUSED = "refused"
    """It will not work however often it is tried."""
    GONE = "gone"
    """The other side wants to be told nothing more."""
    POSTPONED = "postponed"
    """It was not tried: the tenant has sent enough for now."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a call. `error` is for people; None: it was delivered."""

    verdict: Verdict
    status: int | None = None
    error: str | None = None
    reply: bytes | None = None
    retry_after: float | None = None
    """Seconds that the other side asks for."""
    rest: FrozenBody | None = None
    """What is to be sent from now on, where a part has arrived."""


def judge(status: int, headers: Mapping[str, str], reply: bytes, now: Instant) -> Answer:
    """Of an answer over HTTP; names of headers are in lower case."""
    verdict = _verdict_of(status)
    error = None if verdict is Verdict.DELIVERED else _words_for(status, verdict)
    return Answer(verdict, status, error, reply, _retry_after(headers.get("retry-after"), now))


def _verdict_of(status: int) -> Verdict:
    if 200 <= status < 300:
        return Verdict.DELIVERED
    if status == GONE:
        return Verdict.GONE
    return Verdict.REFUSED if status in REFUSALS else Verdict.RETRY


def _words_for(status: int, verdict: Verdict) -> str:
    if 300 <= status < 400:
        return f"It answers {status}, a redirect. Redirects are not followed: give the final URL."
    if verdict is Verdict.GONE:
        return "It answers 410: nothing is to be sent there any more."
    if verdict is Verdict.REFUSED:
        return f"It refuses the call with {status}."
    return f"It answers {status}."


def _retry_after(text: str | None, now: Instant) -> float | None:
    """Seconds of `120` or of a date; None for what is neither."""
    if text is None:
        return None
    text = text.strip()
    if text.isdecimal() and text.isascii():
        return min(float(text[:12]), LONGEST_DELAY)
    try:
        when = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError):
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    try:
        seconds = when.timestamp() - now / 1000
    except (ValueError, OverflowError):
        return None
    return min(max(0.0, seconds), LONGEST_DELAY)
