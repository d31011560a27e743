"""Submitting, and waiting for the end where the client would like that: the same for v1 and v2."""

from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from comfyrail.api.idempotency import REPLAYED
from comfyrail.api.messages import json_response
from comfyrail.api.preferences import (
    DEFAULT_WAIT_SECONDS,
    LONGEST_WAIT_SECONDS,
    applied,
    preferred_wait,
    whole_number,
)
from comfyrail.api.waiting import NOT_THE_END, wait_for
from comfyrail.errors import MalformedRequest, RequestError
from comfyrail.jobs.webhooks import LONGEST_URL, JobWebhook
from comfyrail.usecases.jobs import JobStatus
from comfyrail.usecases.submit import Accepted


async def answer_submission(
    request: Request,
    accepted: Accepted,
    location: str,
    accepted_body: Callable[[Accepted], Any],
    ended_body: Callable[[JobStatus], Any],
    *,
    wait: int | None = None,
) -> Response:
    """202 with what was accepted; with `wait` or `Prefer: wait` 200 with the whole execution, where
    it ends in time.
    """
    headers = {"Location": location}
    if accepted.is_replay:
        headers[REPLAYED] = "true"
    if wait is None and (wait := preferred_wait(request)) is not None:
        headers |= applied(wait)
    if wait is not None:
        status = await wait_for(request, accepted.job_id, wait)
        if status is not None and status.job.state.is_final:
            return json_response(ended_body(status), 200, headers)
        headers |= NOT_THE_END
    return json_response(accepted_body(accepted), 202, headers)


def synchronous_wait(request: Request) -> int | None:
    """How long a `runsync` waits: as its query says; None: as the client prefers."""
    timeout = request.query_params.get("timeout")
    if timeout is not None:
        return whole_number(timeout, "timeout", LONGEST_WAIT_SECONDS)
    return None if preferred_wait(request) is not None else DEFAULT_WAIT_SECONDS


def webhook_of(
    callback_url: str | None, config: JobWebhook | None = None, *, field: str = "callback_url"
) -> JobWebhook | None:
    """Whom a job tells: a URL alone, which came in `field`, is told of its end. Raises
    MalformedRequest for both.
    """
    if callback_url is None:
        return config
    if config is not None:
        raise MalformedRequest("Give either callback_url or webhook_config.")
    if not 0 < len(callback_url) <= LONGEST_URL:
        raise MalformedRequest(f"{field} has 1 to {LONGEST_URL} characters.")
    return JobWebhook(url=callback_url)


def refuse_what_is_not_done_yet(**fields: Any) -> None:
    """Raise for a field that is part of the API and that nothing heeds yet: a client must not
    believe that it is done.
    """
    for name, value in fields.items():
        if value is not None:
            raise RequestError(
                f"{name} is not supported yet. Leave it out.",
                code="NOT_SUPPORTED_YET",
                details={"field": name},
            )
