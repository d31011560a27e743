"""What a client would like, in the header `Prefer` (RFC 7240)."""

import re

from starlette.requests import Request

from comfyrail.errors import MalformedRequest

APPLIED = "Preference-Applied"
DEFAULT_WAIT_SECONDS = 60
LONGEST_WAIT_SECONDS = 300

_SECONDS = re.compile(r"[0-9]{1,9}")
_NUMBER = re.compile(r"[0-9]{1,15}")


def preferred_wait(request: Request) -> int | None:
    """The seconds of `Prefer: wait=N`, at most as long as anybody waits; None: not at all.

    What is not understood is passed over, as the RFC has it.
    """
    given = request.headers.get("prefer")
    if given is None:
        return None
    for preference in ",".join(request.headers.getlist("prefer")).split(","):
        name, _, value = preference.partition(";")[0].partition("=")
        if name.strip().lower() != "wait":
            continue
        seconds = value.strip().strip('"')
        if not seconds:
            return DEFAULT_WAIT_SECONDS
        if _SECONDS.fullmatch(seconds):
            return min(int(seconds), LONGEST_WAIT_SECONDS)
    return None


def applied(seconds: int) -> dict[str, str]:
    """The header that says that a preference was heeded."""
    return {APPLIED: f"wait={seconds}"}


def whole_number(text: str, name: str, most: int) -> int:
    """Of a query that the framework does not read. Raises MalformedRequest for anything else."""
    if not _NUMBER.fullmatch(text) or int(text) > most:
        raise MalformedRequest(f"{name} is a whole number from 0 to {most}, not {text[:40]!r}.")
    return int(text)
