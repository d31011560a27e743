"""Emails by SMTP [9.4]."""

import asyncio
import smtplib
import ssl
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import localtime, parseaddr
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec
import structlog

from comfyrail.errors import ConfigurationError
from comfyrail.notifications.bodies import EmailText
from comfyrail.notifications.channels import recipients_of
from comfyrail.notifications.messages import one_line
from comfyrail.notifications.templates import encode_json
from comfyrail.notifications.verdicts import Answer, Verdict
from comfyrail.store.notifications import Endpoint, FrozenBody

log = structlog.get_logger(__name__)

AT_ONCE = 4
NOT_TAKEN = "The mail server takes no mail from this server at present."
PORTS = {"smtp": 25, "smtps": 465}
SUBMISSION_PORT = 587
FINAL_CODE = 500

_read_text = msgspec.json.Decoder(EmailText).decode


@dataclass(frozen=True, slots=True)
class SmtpServer:
    """Through which emails go out. `starttls`: it must take them encrypted."""

    host: str
    port: int
    is_tls: bool
    starttls: bool
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    sender: str = "comfyrail@localhost"


def read_smtp_url(url: str, sender: str) -> SmtpServer:
    """Read `smtp://user:password@host:587?starttls=1` or `smtps://…`. Raises ConfigurationError."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
        parts = urlsplit("")
    if parts.scheme not in PORTS or not host:
        raise ConfigurationError(
            "smtp_url (COMFYRAIL_SMTP_URL) is written smtp://user:password@host:587?starttls=1 or "
            "smtps://user:password@host:465."
        )
    name, address = parseaddr(sender)
    if "@" not in address or not sender.isprintable():
        raise ConfigurationError(
            "smtp_from (COMFYRAIL_SMTP_FROM) is an address of email, such as "
            "'Comfyrail <comfyrail@example.com>'."
        )
    del name
    wants = parse_qs(parts.query).get("starttls", ["1" if port == SUBMISSION_PORT else "0"])[-1]
    return SmtpServer(
        host=host,
        port=port or PORTS[parts.scheme],
        is_tls=parts.scheme == "smtps",
        starttls=wants.lower() in {"1", "true", "yes"},
        user=unquote(parts.username) if parts.username else None,
        password=unquote(parts.password) if parts.password else None,
        sender=sender,
    )


class EmailSender:
    """In threads of its own: a mail server that hangs holds up nobody else."""

    def __init__(self, server: SmtpServer, tls: ssl.SSLContext | None = None) -> None:
        self._server = server
        self._tls = tls or ssl.create_default_context()
        self._threads = ThreadPoolExecutor(AT_ONCE, "smtp")

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def send(self, endpoint: Endpoint, message_id: str, body: FrozenBody) -> Answer:
        timeout = endpoint.settings.timeout
        loop = asyncio.get_running_loop()
        text = _read_text(body.content)
        to = recipients_left(text, endpoint.url)
        email = compose(text, self._server.sender, endpoint.url, message_id)
        try:
            async with asyncio.timeout(timeout):
                answer = await loop.run_in_executor(
                    self._threads, self._hand_over, email, to, timeout
                )
        except TimeoutError:
            return Answer(
                Verdict.RETRY, error=f"The mail server did not answer within {timeout:g} s."
            )
        if not answer.left:
            return answer.answer
        rest = msgspec.structs.replace(text, left=list(answer.left))
        return replace(answer.answer, rest=FrozenBody(body.content_type, encode_json(rest)))

    def _hand_over(self, email: EmailMessage, to: Sequence[str], timeout: float) -> "_Handed":
        try:
            with self._connect(timeout) as connection:
                refused = connection.send_message(email, to_addrs=to)
        except smtplib.SMTPRecipientsRefused as error:
            return _partly(error.recipients, is_sent_to_some=False)
        except smtplib.SMTPDataError as error:
            return _Handed(_refusal(int(error.smtp_code)))
        except smtplib.SMTPResponseException as error:
            # Who may send, and as whom, is a matter between this server and that one.
            log.warning("mail_server_refuses_this_server", code=int(error.smtp_code))
            return _Handed(Answer(Verdict.RETRY, error=NOT_TAKEN))
        except (smtplib.SMTPException, OSError, ValueError):
            return _Handed(Answer(Verdict.RETRY, error="The mail server cannot be reached."))
        if refused:
            return _partly(refused, is_sent_to_some=True)
        return _Handed(Answer(Verdict.DELIVERED, 250))

    def _connect(self, timeout: float) -> smtplib.SMTP:
        server = self._server
        if server.is_tls:
            connection: smtplib.SMTP = smtplib.SMTP_SSL(
                server.host, server.port, timeout=timeout, context=self._tls
            )
        else:
            connection = smtplib.SMTP(server.host, server.port, timeout=timeout)
        try:
            if server.starttls and not server.is_tls:
                connection.starttls(context=self._tls)
            if server.user is not None:
                connection.login(server.user, server.password or "")
        except BaseException:
            connection.close()
            raise
        return connection


@dataclass(frozen=True, slots=True)
class _Handed:
    """What became of an email. `left`: recipients who may take it later, where others have it."""

    answer: Answer
    left: Sequence[str] = ()


def recipients_left(text: EmailText, url: str) -> Sequence[str]:
    """Those of the endpoint, without those who have it."""
    recipients = recipients_of(url)
    left = [each for each in recipients if each in text.left]
    return left or recipients


def _partly(refused: Mapping[str, tuple[int, bytes]], *, is_sent_to_some: bool) -> _Handed:
    """Where the mail server has refused some recipients, or all."""
    later = [address for address, (code, _) in refused.items() if code < FINAL_CODE]
    if later:
        code = refused[later[0]][0]
        said = f"The mail server answers {code} for {', '.join(later)}."
        return _Handed(Answer(Verdict.RETRY, code, error=said), later)
    if is_sent_to_some:
        said = f"refused for {', '.join(refused)}"
        return _Handed(Answer(Verdict.DELIVERED, 250, reply=said.encode()[:1024]))
    return _Handed(_refusal(max(code for code, _ in refused.values())))


def compose(text: EmailText, sender: str, url: str, message_id: str) -> EmailMessage:
    """Its Message-ID is the delivery's id: one that comes twice can be told."""
    email = EmailMessage()
    email["Subject"] = one_line(text.subject)
    email["From"] = sender
    email["To"] = [_address(each) for each in recipients_of(url)]
    domain = parseaddr(sender)[1].rpartition("@")[2] or "localhost"
    email["Date"] = localtime()
    email["Message-ID"] = f"<{message_id}@{domain}>"
    email["Auto-Submitted"] = "auto-generated"
    email.set_content(text.text)
    email.add_alternative(text.html, subtype="html")
    return email


def _address(text: str) -> Address:
    name, _, domain = text.rpartition("@")
    return Address(username=name, domain=domain)


def _refusal(code: int) -> Answer:
    verdict = Verdict.REFUSED if code >= FINAL_CODE else Verdict.RETRY
    return Answer(verdict, code, error=f"The mail server answers {code}.")
