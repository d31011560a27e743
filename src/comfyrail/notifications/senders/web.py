"""Signed calls of webhooks over HTTP [9.3]."""

from collections.abc import Sequence

from comfyrail.clock import Clock, Instant
from comfyrail.errors import AddressRefused, OutgoingError
from comfyrail.ids import JobId
from comfyrail.network.outgoing import OutgoingHttp, OutgoingLimits
from comfyrail.notifications.endpoints import NETWORKS_SETTING
from comfyrail.notifications.signatures import signature_headers
from comfyrail.notifications.verdicts import Answer, Verdict, judge
from comfyrail.store.notifications import Endpoint, FrozenBody

REPLY_BYTES = 1024
GLANCE_SECONDS = 1.0
"""What is answered beside the status is for the log: nobody waits long for it."""
CONNECT_SECONDS = 10.0


class WebhookSender:
    def __init__(self, http: OutgoingHttp, clock: Clock) -> None:
        self._http = http
        self._clock = clock

    async def send(
        self,
        endpoint: Endpoint,
        keys: Sequence[str],
        message_id: str,
        event_type: str,
        job_id: JobId | None,
        body: FrozenBody,
    ) -> Answer:
        settings = endpoint.settings
        headers = {"Content-Type": body.content_type, **settings.headers}
        headers |= signature_headers(keys, message_id, self._clock.now(), body.content)
        headers["X-Webhook-Event"] = event_type
        if job_id is not None:
            headers["X-Execution-ID"] = job_id
        return await call(
            self._http,
            settings.method,
            endpoint.url,
            headers,
            body.content,
            limits=limits_within(settings.timeout),
            verify_ssl=settings.verify_ssl,
            now=self._clock.now(),
        )


def limits_within(seconds: float) -> OutgoingLimits:
    return OutgoingLimits(
        total_seconds=seconds,
        connect_seconds=min(seconds, CONNECT_SECONDS),
        redirects=0,
        response_bytes=REPLY_BYTES,
    )


async def call(
    http: OutgoingHttp,
    method: str,
    url: str,
    headers: dict[str, str],
    body: bytes,
    *,
    limits: OutgoingLimits,
    verify_ssl: bool,
    now: Instant,
) -> Answer:
    try:
        response = await http.request(
            method,
            url,
            headers=headers,
            body=body,
            limits=limits,
            read_at_most=REPLY_BYTES,
            glance_seconds=GLANCE_SECONDS,
            verify_ssl=verify_ssl,
        )
    except OutgoingError as error:
        return unanswered(error)
    return judge(response.status, response.headers, response.body, now)


def unanswered(error: OutgoingError) -> Answer:
    """Where there was no answer at all. An address that is refused now may be another one later."""
    said = error.message
    if isinstance(error, AddressRefused) and error.reason == "private_address":
        said += f" Whoever runs the server can allow its network with {NETWORKS_SETTING}."
    return Answer(Verdict.RETRY, error=said)
