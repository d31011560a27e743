"""Whom a job tells of its way [9.3]."""

from typing import Annotated, Literal

import msgspec

from comfyrail.jobs.events import FINAL_EVENTS, EventType

LONGEST_URL = 2048
MOST_HEADERS = 20
DEFAULT_TIMEOUT_SECONDS = 30.0
DEFAULT_RETRIES = 3
DEFAULT_RETRY_DELAY_SECONDS = 1.0


class JobWebhook(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An endpoint of one job. `retry_delay` doubles with every try; `events` is what it is told,
    the end of the job where it does not say. Without a `secret` calls are signed with that of the
    tenant.
    """

    url: Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_URL)]
    method: Literal["POST", "PUT", "PATCH"] = "POST"
    headers: Annotated[dict[str, str], msgspec.Meta(max_length=MOST_HEADERS)] = {}
    timeout: Annotated[float, msgspec.Meta(ge=1, le=300)] = DEFAULT_TIMEOUT_SECONDS
    max_retries: Annotated[int, msgspec.Meta(ge=0, le=20)] = DEFAULT_RETRIES
    retry_delay: Annotated[float, msgspec.Meta(ge=0, le=3600)] = DEFAULT_RETRY_DELAY_SECONDS
    verify_ssl: bool = True
    secret: Annotated[str, msgspec.Meta(min_length=8, max_length=200)] | None = None
    events: Annotated[
        list[EventType],
        msgspec.Meta(min_length=1, max_length=20, extra_json_schema={"uniqueItems": True}),
    ] = msgspec.field(default_factory=lambda: sorted(FINAL_EVENTS))

    def __post_init__(self) -> None:
        if len(set(self.events)) < len(self.events):
            raise ValueError("events names each event once")
