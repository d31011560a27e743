"""Emails, text messages and files that are sent [8.3, 9.4]."""

import asyncio
import email
import email.policy
from collections.abc import AsyncIterator
from email.message import EmailMessage
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from aiosmtpd.smtp import SMTP

from comfyrail.bootstrap.notifications import sms_gateway
from comfyrail.bootstrap.settings import load_settings
from comfyrail.errors import ConfigurationError
from comfyrail.jobs.output_config import OutputConfig, UploadTarget
from comfyrail.notifications.senders.email import SmtpServer, read_smtp_url
from comfyrail.notifications.senders.sms import SmsGateway
from comfyrail.store.notifications import DeliveryState
from tests.notifications.parts import ALICE, eventually, post_office
from tests.services.webhook_receiver import answering, receiver

SENDER = "Comfyrail <comfyrail@example.com>"


class Mailbox:
    """What a real SMTP server was given."""

    def __init__(self) -> None:
        self.letters: list[tuple[list[str], EmailMessage]] = []
        self.answer = "250 OK"
        self.of_recipients: dict[str, str] = {}
        self.of_sender = "250 OK"

    async def handle_MAIL(  # noqa: N802 - aiosmtpd's name
        self, _server: Any, _session: Any, envelope: Any, address: str, options: list[str]
    ) -> str:
        envelope.mail_from = address
        envelope.mail_options.extend(options)
        return self.of_sender

    async def handle_RCPT(  # noqa: N802 - aiosmtpd's name
        self, _server: Any, _session: Any, envelope: Any, address: str, _options: list[str]
    ) -> str:
        answer = self.of_recipients.get(address, "250 OK")
        if answer.startswith("250"):
            envelope.rcpt_tos.append(address)
        return answer

    async def handle_DATA(  # noqa: N802 - aiosmtpd's name
        self, _server: Any, _session: Any, envelope: Any
    ) -> str:
        if self.answer.startswith("250"):
            parsed = email.message_from_bytes(envelope.content, policy=email.policy.default)
            assert isinstance(parsed, EmailMessage)
            self.letters.append((envelope.rcpt_tos, parsed))
        return self.answer


@pytest.fixture
async def mailbox() -> AsyncIterator[tuple[Mailbox, SmtpServer]]:
    box = Mailbox()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: SMTP(box, hostname="mail"), "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        yield box, SmtpServer("127.0.0.1", port, is_tls=False, starttls=False, sender=SENDER)


def part(letter: EmailMessage, kind: str) -> str:
    found = letter.get_body((kind,))
    assert found is not None
    content = found.get_content()
    assert isinstance(content, str)
    return content


async def test_an_email_has_text_and_html_and_the_id_of_its_delivery(
    tmp_path: Path, mailbox: tuple[Mailbox, SmtpServer]
) -> None:
    box, smtp = mailbox
    async with post_office(tmp_path, smtp=smtp) as post:
        await post.endpoint("mailto:me@example.com,you@example.org", events=["execution.completed"])
        await post.run(outputs=[await post.output(b"x", "<b>.png")], workflow_id="poster@3")
        (done,) = await post.wait_for_states(DeliveryState.DELIVERED)
        ((to, letter),) = box.letters
        assert to == ["me@example.com", "you@example.org"]
        assert letter["Subject"] == "poster@3 is done"
        assert letter["From"] == SENDER
        assert letter["Date"].datetime.tzinfo is not None
        assert letter["Message-ID"] == f"<{done.id}@example.com>"
        assert "Outputs: 1." in part(letter, "plain")
        assert "href" not in part(letter, "html"), "paths of the server lead nowhere in a mail"
        assert "<b>.png" in part(letter, "plain")
        assert "<li>&lt;b&gt;.png</li>" in part(letter, "html")


async def test_nothing_that_a_job_says_can_begin_a_header_of_an_email(
    tmp_path: Path, mailbox: tuple[Mailbox, SmtpServer]
) -> None:
    box, smtp = mailbox
    async with post_office(tmp_path, smtp=smtp) as post:
        await post.endpoint(
            "mailto:me@example.com",
            events=["execution.failed"],
            subject="Failed: {{ error.message }}",
            template="{{ error.message }}",
            html_template="<p>{{ error.message }}</p>",
        )
        await post.fail(workflow_id="a\r\nBcc: all@example.com")
        await post.wait_for_states(DeliveryState.DELIVERED)
        ((to, letter),) = box.letters
        assert to == ["me@example.com"]
        assert letter["Bcc"] is None
        assert letter["Subject"] == "Failed: The node broke. Bcc: all@example.com"
        assert "The node broke." in part(letter, "html")


@pytest.mark.parametrize(
    ("answer", "state"),
    [("451 later", DeliveryState.PENDING), ("550 never", DeliveryState.DEAD)],
    ids=["later", "never"],
)
async def test_what_a_mail_server_answers_is_heeded(
    tmp_path: Path, mailbox: tuple[Mailbox, SmtpServer], answer: str, state: DeliveryState
) -> None:
    box, smtp = mailbox
    box.answer = answer
    async with post_office(tmp_path, smtp=smtp) as post:
        await post.endpoint("mailto:me@example.com", events=["execution.queued"])
        await post.job()
        found = await post.tried(1)
        assert (found.state, found.last_status) == (state, int(answer[:3]))


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        ("smtp://mail.example.com", ("mail.example.com", 25, False, False, None)),
        ("smtp://u%40x:p%2F@mail.example.com:587", ("mail.example.com", 587, False, True, "u@x")),
        ("smtp://mail.example.com:587?starttls=0", ("mail.example.com", 587, False, False, None)),
        ("smtps://u:p@mail.example.com", ("mail.example.com", 465, True, False, "u")),
    ],
    ids=["plain", "submission", "no-starttls", "tls"],
)
def test_the_mail_server_is_read_from_its_url(url: str, wanted: tuple[Any, ...]) -> None:
    read = read_smtp_url(url, SENDER)
    assert (read.host, read.port, read.is_tls, read.starttls, read.user) == wanted
    assert "p/" not in repr(read)


@pytest.mark.parametrize(
    ("url", "sender"),
    [("http://x", SENDER), ("smtp://", SENDER), ("smtp://h:x", SENDER), ("smtp://h", "nobody")],
    ids=range(4),
)
def test_a_mail_server_that_makes_no_sense_is_refused(url: str, sender: str) -> None:
    with pytest.raises(ConfigurationError):
        read_smtp_url(url, sender)


async def test_a_text_message_goes_through_the_gateway_as_it_wants_it(tmp_path: Path) -> None:
    async with receiver() as gateway:
        sms = SmsGateway(
            gateway.url,
            headers={
                "Authorization": "Bearer key",
                "Content-Type": "application/x-www-form-urlencoded",
            },
            body="To={{ to }}&Body={{ text }}",
        )
        async with post_office(tmp_path, sms=sms) as post:
            await post.endpoint("sms:+4915112345678", events=["execution.failed"])
            await post.fail(workflow_id="poster & co=1@3")
            (done,) = await post.wait_for_states(DeliveryState.DELIVERED)
        (call,) = gateway.taken
        assert call.headers["authorization"] == "Bearer key"
        assert call.headers["idempotency-key"] == done.id
        form = parse_qs(call.body.decode(), strict_parsing=True)
        assert form["To"] == ["+4915112345678"]
        (text,) = form["Body"]
        assert text.startswith("poster & co=1@3 has failed. The node broke.")
        assert len(text) <= 300


async def test_a_long_text_message_is_cut(tmp_path: Path) -> None:
    async with receiver() as gateway:
        async with post_office(tmp_path, sms=SmsGateway(gateway.url)) as post:
            await post.endpoint(
                "sms:+4915112345678", events=["execution.queued"], template="{{ workflow_id }}"
            )
            await post.job(workflow_id='"' + "x" * 1000)
            await post.wait_for_states(DeliveryState.DELIVERED)
        (call,) = gateway.taken
        assert call.json["to"] == "+4915112345678"
        assert len(call.json["text"]) == 300


@pytest.mark.parametrize(
    "settings",
    [
        {"sms_url": "ftp://x"},
        {"sms_body": '{"to": "{{ to }}"}'},
        {"sms_body": '{"to": "{{ to }}", "text": "{{ text }}'},
        {"sms_headers": "Authorization: x"},
        {"sms_headers": '{"A": "b\\r\\nC: d"}'},
    ],
    ids=range(5),
)
def test_a_gateway_that_makes_no_sense_is_refused(settings: dict[str, str]) -> None:
    given = {"sms_url": "http://gateway.example/", **settings}
    with pytest.raises(ConfigurationError):
        sms_gateway(load_settings(**given))


async def test_outputs_are_sent_to_presigned_urls(tmp_path: Path) -> None:
    async with receiver() as storage, post_office(tmp_path) as post:
        target = f"http://127.0.0.1:{storage.port}/bucket/a.png?X-Amz-Signature=abc&part=1"
        uploads = [
            UploadTarget(url=target, node_id="3", headers={"x-ms-blob-type": "BlockBlob"}),
            UploadTarget(url=target + "0", index=1, method="POST"),
        ]
        large = bytes(range(256)) * 20_000
        outputs = [await post.output(large, "a.png"), await post.output(b"two", "b.png", "9")]
        await post.run(outputs=outputs, output_config=OutputConfig(uploads=uploads))
        await post.wait_for_states(DeliveryState.DELIVERED, DeliveryState.DELIVERED)
        first, second = sorted(storage.taken, key=lambda call: call.method, reverse=True)
        assert (first.method, first.query) == ("PUT", {"X-Amz-Signature": "abc", "part": "1"})
        assert first.body == large
        assert first.headers["content-length"] == str(len(large))
        assert "transfer-encoding" not in first.headers
        assert first.headers["content-type"] == "image/png"
        assert first.headers["x-ms-blob-type"] == "BlockBlob"
        assert "x-signature" not in first.headers
        assert (second.method, second.body) == ("POST", b"two")


async def test_an_upload_that_is_refused_or_of_nothing_is_a_dead_letter(tmp_path: Path) -> None:
    async with receiver(answering(400)) as storage, post_office(tmp_path) as post:
        uploads = [UploadTarget(url=storage.url), UploadTarget(url=storage.url, index=7)]
        await post.run(
            outputs=[await post.output(b"x")], output_config=OutputConfig(uploads=uploads)
        )
        refused, missing = await post.wait_for_states(DeliveryState.DEAD, DeliveryState.DEAD)
        assert (refused.kind, refused.last_status) == ("upload", 400)
        assert missing.last_error == "The job made no output with the index 7."
        storage.behave = answering(200)
        await post.webhooks.redeliver(ALICE, refused.id)
        await eventually(lambda: storage.taken)
        await post.wait_for_states(DeliveryState.DELIVERED, DeliveryState.DEAD)


async def test_a_job_that_fails_uploads_nothing(tmp_path: Path) -> None:
    async with receiver() as storage, post_office(tmp_path) as post:
        await post.fail(output_config=OutputConfig(uploads=[UploadTarget(url=storage.url)]))
        assert await post.deliveries() == []


async def test_recipients_who_are_refused_for_a_time_get_it_later_and_the_others_not_twice(
    tmp_path: Path, mailbox: tuple[Mailbox, SmtpServer]
) -> None:
    box, smtp = mailbox
    box.of_recipients = {"grey@example.com": "451 later", "gone@example.com": "550 never"}
    async with post_office(tmp_path, smtp=smtp) as post:
        await post.endpoint(
            "mailto:me@example.com,grey@example.com,gone@example.com", events=["execution.queued"]
        )
        await post.job()
        waiting = await post.tried(1)
        assert (waiting.state, waiting.last_status) == (DeliveryState.PENDING, 451)
        box.of_recipients = {}
        await post.wait_for_states(DeliveryState.DELIVERED)
        assert [to for to, _ in box.letters] == [["me@example.com"], ["grey@example.com"]]


async def test_a_mail_server_that_refuses_the_server_itself_is_tried_again(
    tmp_path: Path, mailbox: tuple[Mailbox, SmtpServer]
) -> None:
    box, smtp = mailbox
    box.of_sender = "550 who are you, hunter2"
    async with post_office(tmp_path, smtp=smtp) as post:
        await post.endpoint("mailto:me@example.com", events=["execution.queued"])
        await post.job()
        found = await post.tried(1)
        assert found.state is DeliveryState.PENDING
        assert found.last_error == "The mail server takes no mail from this server at present."


@pytest.mark.parametrize(
    ("status", "state"),
    [(401, DeliveryState.PENDING), (404, DeliveryState.PENDING), (422, DeliveryState.DEAD)],
)
async def test_what_the_gateway_says_is_not_for_the_tenant(
    tmp_path: Path, status: int, state: DeliveryState
) -> None:
    async with (
        receiver(answering(status)) as gateway,
        post_office(tmp_path, sms=SmsGateway(gateway.url)) as post,
    ):
        await post.endpoint("sms:+4915112345678", events=["execution.queued"])
        await post.job()
        found = await post.tried(1)
        assert (found.state, found.last_status) == (state, status)
        (made,) = (await post.webhooks.delivery(ALICE, found.id)).tries
        assert made.reply is None
