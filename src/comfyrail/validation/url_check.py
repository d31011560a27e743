"""The part of stage 3 that asks the network: whether URLs can be reached, and what they give."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from comfyrail.errors import AddressRefused, OutgoingError
from comfyrail.network.probe import UrlAnswer
from comfyrail.network.urls import without_secrets
from comfyrail.validation.context import ValidationContext
from comfyrail.validation.findings import Finding
from comfyrail.validation.meanings import Meaning, prepare_meanings
from comfyrail.validation.policy import SecurityPolicy
from comfyrail.validation.security import judged_texts
from comfyrail.validation.text_flow import Judged, TextFlow
from comfyrail.validation.urls import allows_host, is_url, whole_url
from comfyrail.workflow.graph import Workflow
from comfyrail.workflow.nearest import printable, shown

URL_ERRORS = {
    "forbidden": "UNAUTHORIZED_DOMAIN",
    "unreachable": "URL_NOT_ACCESSIBLE",
    "other": "URL_VALIDATION_ERROR",
}


class UrlProbe(Protocol):
    """Asks a server for a URL without fetching it all; see `network.probe.HttpUrlProbe`."""

    async def probe(self, url: str, allows: Callable[[str], bool]) -> UrlAnswer:
        """`allows` is asked for the host of every redirect too. Raises OutgoingError."""
        ...


@dataclass(frozen=True, slots=True)
class UrlCheckLimits:
    urls: int = 20
    at_once: int = 4
    seconds: float = 20.0


async def check_urls(
    workflow: Workflow,
    context: ValidationContext,
    probe: UrlProbe,
    limits: UrlCheckLimits | None = None,
) -> list[Finding]:
    """Findings on the URLs of a workflow in which the stages without the network found no error."""
    limits = limits or UrlCheckLimits()
    urls = find_urls(workflow.expanded(), context)
    asked = list(urls.items())[: limits.urls]
    findings = [_too_many(places[0], limits) for places in list(urls.values())[limits.urls :][:1]]
    turns = asyncio.Semaphore(limits.at_once)

    async def ask(url: str, places: Sequence[Judged]) -> list[Finding]:
        async with turns:
            verdict = await _ask(url, context.policy, probe)
        return [] if verdict is None else [verdict.at(place) for place in places]

    tasks = [
        asyncio.create_task(ask(*each), name=f"probe of URL {number}")
        for number, each in enumerate(asked, 1)
    ]
    if tasks:
        await asyncio.wait(tasks, timeout=limits.seconds)
    for task, (url, places) in zip(tasks, asked, strict=True):
        if task.done():
            findings.extend(task.result())
        else:
            findings.extend(_late(url).at(place) for place in places)
            task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return findings


def find_urls(workflow: Workflow, context: ValidationContext) -> dict[str, list[Judged]]:
    """The URLs that nodes would ask for, each with where it stands."""
    urls: dict[str, list[Judged]] = {}
    flow = TextFlow(workflow.nodes, context.catalog.prepared(prepare_meanings))
    for judged in judged_texts(workflow, flow):
        text = judged.text.strip()
        if text and judged.whole and (judged.meaning is Meaning.URL or is_url(text)):
            urls.setdefault(whole_url(text), []).append(judged)
    return urls


@dataclass(frozen=True, slots=True)
class _Verdict:
    """What is wrong with a URL, wherever it stands."""

    error_code: str
    url: str
    text: str
    details: Mapping[str, Any]

    def at(self, place: Judged) -> Finding:
        part = place.parts[0]
        return Finding(
            stage="security",
            severity="error",
            error_code=self.error_code,
            message=f"Node '{part.node.id}' ({part.node.class_type}), input '{part.input}': "
            f"the URL {shown(without_secrets(self.url))} cannot be used. {self.text}",
            node_id=part.node.id,
            path=f"{part.node.id}.inputs.{part.input}",
            details=self.details,
        )


async def _ask(url: str, policy: SecurityPolicy, probe: UrlProbe) -> _Verdict | None:
    try:
        answer = await probe.probe(url, lambda host: allows_host(host, policy))
    except OutgoingError as error:
        return _Verdict(_code_of(error), url, error.message, {"reason": error.reason})
    if answer.status >= 400:
        text = f"Its server answers with status {answer.status}."
        details = {"reason": "status", "status": answer.status}
        return _Verdict(error_code="URL_NOT_ACCESSIBLE", url=url, text=text, details=details)
    if not _is_allowed_type(answer.content_type, policy):
        return _wrong_type(url, answer.content_type, policy)
    return None


def _code_of(error: OutgoingError) -> str:
    if isinstance(error, AddressRefused):
        is_forbidden = error.reason in {"private_address", "domain", "scheme", "credentials"}
        return URL_ERRORS["forbidden" if is_forbidden else "other"]
    is_unreachable = error.reason in {"unreachable", "timeout", "certificate"}
    return URL_ERRORS["unreachable" if is_unreachable else "other"]


def _is_allowed_type(content_type: str | None, policy: SecurityPolicy) -> bool:
    if content_type is None:
        return False
    return any(
        content_type.startswith(allowed.removesuffix("*"))
        if allowed.endswith("/*")
        else content_type == allowed
        for allowed in policy.allowed_content_types
    )


def _wrong_type(url: str, content_type: str | None, policy: SecurityPolicy) -> _Verdict:
    allowed = list(policy.allowed_content_types)
    said = None if content_type is None else printable(content_type)
    given = "nothing" if said is None else shown(said)
    return _Verdict(
        error_code="INVALID_CONTENT_TYPE",
        url=url,
        text=f"Its server gives {given} as its type; allowed are {', '.join(allowed)}.",
        details={"content_type": said, "allowed": allowed},
    )


def _late(url: str) -> _Verdict:
    text = "Its server did not answer in time."
    details = {"reason": "timeout"}
    return _Verdict(error_code="URL_NOT_ACCESSIBLE", url=url, text=text, details=details)


def _too_many(place: Judged, limits: UrlCheckLimits) -> Finding:
    return _Verdict(
        error_code="URL_VALIDATION_ERROR",
        url=place.text,
        text=f"A workflow may have {limits.urls} URLs.",
        details={"reason": "too_many", "allowed": limits.urls},
    ).at(place)
