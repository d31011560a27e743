"""What emails and text messages say where an endpoint has no texts of its own [9.4]. Pure."""

import html
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from comfyrail.jobs.events import EventType
from comfyrail.notifications.templates import render_text
from comfyrail.store.notifications import TEST_EVENT

LONGEST_SUBJECT = 200
LONGEST_SMS = 300
MOST_LINKS = 20


@dataclass(frozen=True, slots=True)
class Wording:
    subject: str
    text: str


_NAME = "{{ title }}"
_WORDINGS: dict[str, Wording] = {
    EventType.QUEUED: Wording(f"{_NAME} is queued", "It waits for a worker."),
    EventType.STARTED: Wording(f"{_NAME} has started", "It runs on {{ data.worker_id }}."),
    EventType.COMPLETED: Wording(f"{_NAME} is done", "Outputs: {{ data.outputs }}."),
    EventType.FAILED: Wording(f"{_NAME} has failed", "{{ error.message }}"),
    EventType.CANCELLED: Wording(f"{_NAME} was cancelled", "It was stopped before its end."),
    EventType.WARNING: Wording(f"{_NAME}: a warning", "{{ data.message }}"),
    EventType.WEBHOOK_DISABLED: Wording(
        "A webhook was disabled",
        "The webhook {{ data.webhook_id }} ({{ data.description }}) is told nothing more. "
        "{{ data.reason }} Mend it and enable it again; what it has missed is in the dead letters.",
    ),
    TEST_EVENT: Wording("A test", "This is a test. It works."),
}
_OTHERS = Wording("{{ title }}: {{ type }}", "{{ type }}")


def subject_of(message: Mapping[str, Any], template: str | None = None) -> str:
    return one_line(render_text(template or _wording(message).subject, _named(message)))


def text_of(message: Mapping[str, Any]) -> str:
    lines = [render_text(_wording(message).text, _named(message))]
    if message.get("execution_id"):
        lines += ["", f"Execution: {message['execution_id']}", f"Time: {message['timestamp']}"]
    links = _links(message)
    if links:
        lines += ["", *(f"{name}: {url}" if url else name for name, url in links)]
    return "\n".join(lines) + "\n"


def html_of(message: Mapping[str, Any]) -> str:
    paragraphs = html.escape(text_of({**message, "outputs": []})).strip().replace("\n", "<br>\n")
    items = "".join(f"<li>{_link(name, url)}</li>\n" for name, url in _links(message))
    title = html.escape(subject_of(message))
    listed = f"<ul>\n{items}</ul>\n" if items else ""
    return (
        f'<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8"><title>{title}</title>'
        f"</head>\n<body>\n<h1>{title}</h1>\n<p>{paragraphs}</p>\n{listed}</body>\n</html>\n"
    )


def sms_of(message: Mapping[str, Any], template: str | None = None) -> str:
    wording = _wording(message)
    text = template or f"{wording.subject}. {wording.text}"
    return one_line(render_text(text, _named(message)), LONGEST_SMS)


def one_line(text: str, longest: int = LONGEST_SUBJECT) -> str:
    """Without line ends and other control characters: it can begin no header."""
    flat = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return flat if len(flat) <= longest else flat[: longest - 1] + "…"


def _wording(message: Mapping[str, Any]) -> Wording:
    return _WORDINGS.get(message["type"], _OTHERS)


def _named(message: Mapping[str, Any]) -> dict[str, Any]:
    """With what it is about, in words."""
    name = message.get("workflow_id") or message.get("execution_id")
    return {**message, "title": name or "Comfyrail"}


def _links(message: Mapping[str, Any]) -> list[tuple[str, str | None]]:
    """Names of outputs, with their URLs where those can be opened from anywhere."""
    outputs = message.get("outputs") or []
    return [
        (each["filename"], each["url"] if each["url"].startswith("http") else None)
        for each in outputs[:MOST_LINKS]
    ]


def _link(name: str, url: str | None) -> str:
    text = html.escape(name)
    return text if url is None else f'<a href="{html.escape(url)}">{text}</a>'
