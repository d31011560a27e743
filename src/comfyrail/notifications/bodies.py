"""What is sent: made once of an event, its job and its outputs, and kept from then on [9.3]."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from comfyrail.clock import Instant
from comfyrail.ids import TenantId
from comfyrail.jobs.job import Job, Output
from comfyrail.notifications.channels import Channel, channel_of
from comfyrail.notifications.messages import html_of, sms_of, subject_of, text_of
from comfyrail.notifications.templates import (
    LONGEST_RENDERED,
    body_too_long,
    choose_fields,
    encode_json,
    is_json,
    render_html,
    render_json,
    render_text,
)
from comfyrail.store.notifications import (
    TEST_EVENT,
    Endpoint,
    EndpointSettings,
    FrozenBody,
    Subject,
)

JSON = "application/json"
TEXT = "text/plain; charset=utf-8"

LinkTo = Callable[[TenantId, Output], str]
"""Where an output of a tenant's job can be had."""


class EmailText(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an email says, as it is kept."""

    subject: str
    text: str
    html: str
    left: list[str] = []
    """The recipients who do not have it yet; empty: nobody has it."""


class SmsText(msgspec.Struct, frozen=True):
    text: str


def own_path(_tenant: TenantId, output: Output) -> str:
    """Of this server, for those who have a key."""
    return f"/v1/workflows/execution/{output.job_id}/outputs/{output.file.id}"


def message_about(message_id: str, subject: Subject, link_to: LinkTo) -> dict[str, Any]:
    """Everything that can be told."""
    event, job = subject.event, subject.job
    message: dict[str, Any] = {
        "id": message_id,
        "type": str(event.type),
        "timestamp": time_text(event.at),
        "execution_id": event.job_id,
        "number": event.number,
        "data": msgspec.to_builtins(event.data),
    }
    if job is not None:
        message["workflow_id"] = job.workflow_id
        message["batch_id"] = job.batch_id
    if job is not None and event.type.is_final:
        message |= _end_of(job)
        message["outputs"] = [
            _told_output(output, link_to(job.tenant, output))
            for output in subject.outputs
            if output.gone_at is None
        ]
    return message


def test_message(message_id: str, endpoint: Endpoint, now: Instant) -> dict[str, Any]:
    """One that looks like those to come."""
    return {
        "id": message_id,
        "type": TEST_EVENT,
        "timestamp": time_text(now),
        "execution_id": None,
        "number": None,
        "data": {"webhook_id": endpoint.id, "message": "This is a test."},
    }


test_message.__test__ = False  # type: ignore[attr-defined]


def freeze(message: Mapping[str, Any], url: str, settings: EndpointSettings) -> FrozenBody:
    """The bytes for an endpoint. Raises InvalidWebhook where its template makes too much of it."""
    match channel_of(url):
        case Channel.EMAIL:
            body = FrozenBody(JSON, encode_json(_email(message, settings)))
        case Channel.SMS:
            body = FrozenBody(JSON, encode_json(SmsText(sms_of(message, settings.template))))
        case Channel.WEBHOOK:
            body = _call(message, settings)
            if len(body.content) > LONGEST_RENDERED and settings.template is None:
                body = _call(_without_outputs(message), settings)
    if len(body.content) > LONGEST_RENDERED:
        raise body_too_long()
    return body


def time_text(instant: Instant) -> str:
    when = datetime.fromtimestamp(instant / 1000, UTC)
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _call(message: Mapping[str, Any], settings: EndpointSettings) -> FrozenBody:
    if settings.template is None:
        chosen = choose_fields(message, settings.fields) if settings.fields else message
        return FrozenBody(JSON, encode_json(chosen))
    if is_json(settings.template):
        return FrozenBody(JSON, render_json(settings.template, message).encode())
    return FrozenBody(TEXT, render_text(settings.template, message).encode())


def _without_outputs(message: Mapping[str, Any]) -> dict[str, Any]:
    """That it came to an end is told all the same; the API lists what it has made."""
    omitted = len(message.get("outputs") or ())
    return {**message, "outputs": [], "outputs_omitted": omitted}


def _email(message: Mapping[str, Any], settings: EndpointSettings) -> EmailText:
    text = settings.template
    page = settings.html_template
    return EmailText(
        subject_of(message, settings.subject),
        text_of(message) if text is None else render_text(text, message),
        html_of(message) if page is None else render_html(page, message),
    )


def _end_of(job: Job) -> dict[str, Any]:
    return {
        "status": str(job.state),
        "submitted_at": time_text(job.submitted_at),
        "started_at": None if job.started_at is None else time_text(job.started_at),
        "completed_at": None if job.completed_at is None else time_text(job.completed_at),
        "attempts": job.attempts,
        "cost": job.cost,
        "error": None if job.fault is None else msgspec.to_builtins(job.fault),
    }


def _told_output(output: Output, url: str) -> dict[str, Any]:
    file = output.file
    return {
        "output_id": file.id,
        "node_id": file.node_id,
        "kind": file.kind,
        "filename": file.filename,
        "temporary": file.is_temporary,
        "partial": output.is_partial,
        "content_type": file.content_type,
        "size": file.size,
        "sha256": file.sha256,
        "url": url,
    }
