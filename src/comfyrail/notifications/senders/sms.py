"""Text messages through a gateway over HTTP, which the server's settings describe [9.4]."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

import aiohttp
import msgspec
import structlog

from comfyrail.clock import Clock
from comfyrail.notifications.bodies import JSON, TEXT, SmsText
from comfyrail.notifications.channels import number_of
from comfyrail.notifications.senders.web import REPLY_BYTES
from comfyrail.notifications.templates import is_json, render_form, render_json, render_text
from comfyrail.notifications.verdicts import Answer, Verdict, judge
from comfyrail.store.notifications import Endpoint, FrozenBody

log = structlog.get_logger(__name__)

DEFAULT_BODY = '{"to": "{{ to }}", "text": "{{ text }}"}'
FORM = "application/x-www-form-urlencoded"

_read_text = msgspec.json.Decoder(SmsText).decode


@dataclass(frozen=True, slots=True)
class SmsGateway:
    """How the gateway is called. `body` has `{{ to }}` and `{{ text }}` in it; it is JSON where it
    begins like it, a form where `headers` say so, and else plain text.
    """

    url: str = field(repr=False)
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: str = DEFAULT_BODY

    @property
    def content_type(self) -> str:
        given = {name.lower(): value for name, value in self.headers.items()}
        return given.get("content-type") or (JSON if is_json(self.body) else TEXT)

    def render(self, to: str, text: str) -> bytes:
        values = {"to": to, "text": text}
        if self.content_type.startswith(FORM):
            return render_form(self.body, values).encode()
        render = render_json if is_json(self.body) else render_text
        return render(self.body, values).encode()


class SmsSender:
    """The gateway is chosen by whoever runs the server: it may be in a network of its own."""

    def __init__(self, gateway: SmsGateway, http: aiohttp.ClientSession, clock: Clock) -> None:
        self._gateway = gateway
        self._http = http
        self._clock = clock

    async def send(self, endpoint: Endpoint, message_id: str, body: FrozenBody) -> Answer:
        gateway = self._gateway
        headers = {"Content-Type": gateway.content_type, "Idempotency-Key": message_id}
        headers |= dict(gateway.headers)
        content = gateway.render(number_of(endpoint.url), _read_text(body.content).text)
        try:
            async with (
                asyncio.timeout(endpoint.settings.timeout),
                self._http.request(
                    gateway.method,
                    gateway.url,
                    data=content,
                    headers=headers,
                    allow_redirects=False,
                ) as response,
            ):
                reply = await response.content.read(REPLY_BYTES)
                said = {name.lower(): value for name, value in response.headers.items()}
                answer = judge(response.status, said, reply, self._clock.now())
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
            return Answer(Verdict.RETRY, error="The SMS gateway cannot be reached.")
        return _of_the_gateway(answer)


def _of_the_gateway(answer: Answer) -> Answer:
    """What it says is for whoever runs the server: it may name an account, and is nothing that the
    tenant could mend.
    """
    status = answer.status
    match answer.verdict:
        case Verdict.DELIVERED:
            return Answer(Verdict.DELIVERED, status)
        case Verdict.REFUSED:
            return Answer(Verdict.REFUSED, status, "The SMS gateway refuses the message.")
        case _:
            log.warning("sms_gateway_refuses_this_server", status=status)
            said = "The SMS gateway takes no messages from this server at present."
            return Answer(Verdict.RETRY, status, said, retry_after=answer.retry_after)
