"""How often a caller may ask, and how the reply says it [11.2]."""

import math
import time
from collections.abc import Mapping
from enum import StrEnum
from re import Pattern

from starlette.routing import compile_path
from starlette.types import Scope

from comfyrail.access.principal import Principal
from comfyrail.access.rate_limits import WINDOW_SECONDS, RateLimiter, Verdict
from comfyrail.access.tiers import limits_of
from comfyrail.api.cors import Headers
from comfyrail.api.operations import Operation, Operations
from comfyrail.errors import TooManyRequests


class Rate(StrEnum):
    SUBMIT = "submit"
    """Requests that make jobs."""
    REQUEST = "request"
    """All others."""


class Submissions:
    """The routes that make jobs, known by the same patterns as the framework finds them by."""

    def __init__(self, operations: Operations) -> None:
        self._whole: set[tuple[str, str]] = set()
        self._patterns: dict[str, list[Pattern[str]]] = {}
        for (method, path), operation in operations.items():
            if operation.is_submission and "{" in path:
                self._patterns.setdefault(method.upper(), []).append(compile_path(path)[0])
            elif operation.is_submission:
                self._whole.add((method.upper(), path))

    def has(self, method: str, path: str) -> bool:
        if (method, path) in self._whole:
            return True
        return any(pattern.match(path) for pattern in self._patterns.get(method, ()))


class Rates:
    def __init__(self, limiter: RateLimiter, submissions: Submissions) -> None:
        self._limiter = limiter
        self._submissions = submissions

    async def count(self, scope: Scope) -> None:
        """Raise TooManyRequests for one too many. What is refused is not counted."""
        is_submission = scope["type"] == "http" and self._submissions.has(
            scope["method"], scope["path"]
        )
        await self.count_as(scope, Rate.SUBMIT if is_submission else Rate.REQUEST)

    async def count_as(self, scope: Scope, rate: Rate) -> None:
        principal: Principal | None = scope["principal"]
        if principal is None or not principal.is_limited:
            return
        limits = limits_of(principal.tier)
        limit = limits.submissions if rate is Rate.SUBMIT else limits.requests
        verdict = await self._limiter.take(f"{principal.tenant}:{rate}", limit)
        scope["rate"] = (rate, verdict)
        if not verdict.is_allowed:
            raise _too_many(rate, principal, verdict)


async def count_submission(scope: Scope, operation: Operation) -> None:
    """For a route that has been found. One that makes jobs and was taken for another request at the
    gate, by whatever spelling of its path, is counted as what it is.
    """
    rates: Rates | None = scope.get("rates")
    if not operation.is_submission or rates is None:
        return
    counted = scope.get("rate")
    if counted is None or counted[0] is not Rate.SUBMIT:
        await rates.count_as(scope, Rate.SUBMIT)


def rate_headers(scope: Scope) -> Headers:
    counted: tuple[Rate, Verdict] | None = scope.get("rate")
    if counted is None:
        return ()
    rate, verdict = counted
    seconds = math.ceil(verdict.reset)
    headers: Mapping[bytes, str] = {
        b"x-ratelimit-limit": str(verdict.limit),
        b"x-ratelimit-remaining": str(verdict.remaining),
        b"x-ratelimit-reset": str(math.ceil(time.time() + verdict.reset)),
        b"ratelimit-policy": f'"{rate}";q={verdict.limit};w={WINDOW_SECONDS:.0f}',
        b"ratelimit": f'"{rate}";r={verdict.remaining};t={seconds}',
    }
    return tuple((name, value.encode()) for name, value in headers.items())


def _too_many(rate: Rate, principal: Principal, verdict: Verdict) -> TooManyRequests:
    what = "submissions" if rate is Rate.SUBMIT else "requests"
    wait = max(1, math.ceil(verdict.reset))
    return TooManyRequests(
        f"The tier {principal.tier} allows {verdict.limit} {what} a minute, and you have made "
        f"them. Try again in {wait} s.",
        details={"limit": verdict.limit, "rate": rate.value, "tier": principal.tier},
        retry_after=float(wait),
    )
