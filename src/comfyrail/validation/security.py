"""Stage 3: what a workflow may not do, whoever runs it. `meanings` has the rule for texts."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from comfyrail.validation.context import ValidationContext
from comfyrail.validation.dangerous_texts import find_code, find_escape, goes_up
from comfyrail.validation.findings import Finding
from comfyrail.validation.limits import check_amounts, check_node_count, check_sizes
from comfyrail.validation.meanings import (
    JUDGED_AT_THE_END,
    UNKNOWN_TYPE,
    InputMeanings,
    Meaning,
    prepare_meanings,
)
from comfyrail.validation.node_checks import ExaminedNode
from comfyrail.validation.policy import DENIED_NODE_TYPES, SecurityPolicy
from comfyrail.validation.text_flow import Judged, passes_one_text, texts_that_reach
from comfyrail.validation.urls import find_url_fault, is_url
from comfyrail.workflow.graph import Edge, Node, Workflow, is_link
from comfyrail.workflow.nearest import shown

_RUN_BY_BROWSERS = ("javascript:", "vbscript:")


def check_security(
    workflow: Workflow, examined: Sequence[ExaminedNode], context: ValidationContext
) -> list[Finding]:
    """All faults of the stage that can be seen without the network."""
    policy = context.policy
    findings = check_node_count(len(workflow.nodes), policy.limits)
    findings.extend(check_sizes(examined, policy.limits))
    findings.extend(check_amounts(examined, context.catalog, policy.limits))
    findings.extend(_check_node_types(examined, policy))
    meanings = context.catalog.prepared(prepare_meanings)
    longest = policy.limits.max_string_length
    for judged in judged_texts(workflow, meanings):
        if longest is None or len(judged.text) <= longest:  # a longer one is refused already
            findings.extend(_judge_text(judged, policy))
    if not policy.allow_computed_urls:
        findings.extend(_find_computed_urls(workflow, meanings))
    return findings


def judged_texts(
    workflow: Workflow, meanings: Mapping[str, InputMeanings | None]
) -> Iterator[Judged]:
    """Every literal text that something may act on, with what it means."""
    seeds: list[tuple[Edge, Meaning]] = []
    for node in workflow.nodes.values():
        known = meanings[node.class_type] or UNKNOWN_TYPE
        for name, value in node.inputs.items():
            kind = type(value)
            if kind is not str and kind is not dict and kind is not list:
                continue
            meaning = known.of(name)
            if meaning is None or (meaning is Meaning.TEXT and kind is not dict):
                continue
            if kind is list:
                if (meaning in JUDGED_AT_THE_END or not known.passes_text) and is_link(value):
                    seeds.append((Edge(value[0], int(value[1]), node.id, name), meaning))
            elif meaning in JUDGED_AT_THE_END or not known.passes_text:
                for text in _texts_in(value):
                    yield Judged(node, name, text, meaning, whole=True)
    if seeds:
        yield from texts_that_reach(seeds, workflow.nodes, meanings)


def _texts_in(value: Any) -> Iterator[str]:
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, dict):
            waiting.extend(each.values())
        elif isinstance(each, list):
            waiting.extend(each)


def _judge_text(judged: Judged, policy: SecurityPolicy) -> Iterator[Finding]:
    text, meaning = judged.text, judged.meaning
    if not text or meaning is Meaning.TEXT:
        return
    found = find_code(text, meaning)
    if found is not None:
        yield _code_injection(judged, found)
    elif judged.whole and (meaning is Meaning.URL or is_url(text)):
        yield from _judge_url(judged, policy)
    elif meaning is Meaning.PATH:
        reason = find_escape(text, policy.allowed_folders) if judged.whole else None
        if not judged.whole and goes_up(text):
            reason = "it goes up a folder with '..'"
        if reason is not None:
            yield _path_traversal(judged, reason)


def _judge_url(judged: Judged, policy: SecurityPolicy) -> Iterator[Finding]:
    url = judged.text.strip()
    if url.lower().startswith(_RUN_BY_BROWSERS):
        yield _code_injection(judged, url.partition(":")[0] + ":")
        return
    fault = find_url_fault(whole_url(url), policy)
    if fault is not None:
        yield _finding(
            judged,
            f"the URL {shown(url)} may not be used. {fault.text}",
            error_code="UNAUTHORIZED_DOMAIN",
            reason=fault.reason,
            domain=fault.domain,
        )


def whole_url(text: str) -> str:
    """With the scheme that those who take a URL add where there is none."""
    return text if is_url(text) else f"https://{text.removeprefix('//')}"


def _find_computed_urls(
    workflow: Workflow, meanings: Mapping[str, InputMeanings | None]
) -> Iterator[Finding]:
    for node in workflow.nodes.values():
        known = meanings[node.class_type] or UNKNOWN_TYPE
        for name, value in node.inputs.items():
            if type(value) is not list or known.of(name) is not Meaning.URL or not is_link(value):
                continue
            source = workflow.nodes.get(value[0])
            if source is not None and _makes_text(source, meanings):
                yield _computed_url(node, name, value[0])


def _makes_text(source: Node, meanings: Mapping[str, InputMeanings | None]) -> bool:
    known = meanings[source.class_type] or UNKNOWN_TYPE
    return known.passes_text and not passes_one_text(source, known)


def _check_node_types(
    examined: Sequence[ExaminedNode], policy: SecurityPolicy
) -> Iterator[Finding]:
    allowed = policy.allowed_node_types
    for each in examined:
        name = each.node.class_type
        pack = each.check.type.pack if each.check is not None else None
        if name in policy.denied_node_types:
            yield _dangerous_node(each.node)
        elif allowed is not None and name not in allowed:
            yield _not_allowed(each.node, "it is not among the allowed node types")
        elif pack is not None and not _allows_custom(name, pack, policy):
            yield _not_allowed(each.node, f"it is a custom node of '{pack}'")


def _allows_custom(name: str, pack: str, policy: SecurityPolicy) -> bool:
    rule = policy.custom_node_policy
    if isinstance(rule, str):
        return rule == "allow"
    return name in rule or pack in rule


def find_denied_unknown(
    examined: Sequence[ExaminedNode], policy: SecurityPolicy
) -> Iterator[Finding]:
    """Node types that nobody knows and that would not be allowed either: nobody need add them."""
    for each in examined:
        if each.check is None and each.node.class_type in policy.denied_node_types:
            yield _dangerous_node(each.node)


def _dangerous_node(node: Node) -> Finding:
    is_known = node.class_type in DENIED_NODE_TYPES
    reason = (
        "it runs commands or code, or reaches files or the network"
        if is_known
        else "the server's policy denies it (denied_node_types)"
    )
    return Finding(
        "security",
        "error",
        "DANGEROUS_NODE",
        f"Node '{node.id}': the node type {shown(node.class_type)} is not allowed, because "
        f"{reason}.",
        node_id=node.id,
        path=f"{node.id}.class_type",
        details={"class_type": node.class_type},
    )


def _not_allowed(node: Node, why: str) -> Finding:
    return Finding(
        "security",
        "error",
        "NODE_NOT_ALLOWED",
        f"Node '{node.id}': the node type {shown(node.class_type)} is not allowed: {why}.",
        node_id=node.id,
        path=f"{node.id}.class_type",
        details={"class_type": node.class_type},
    )


def _code_injection(judged: Judged, found: str) -> Finding:
    text = f"{shown(found)} is not allowed in an input that means {judged.meaning.value}."
    if judged.meaning is Meaning.PLAIN:
        text = f"{shown(found)} is not allowed in an input that may be run as code."
    return _finding(judged, text, error_code="CODE_INJECTION", match=found[:80])


def _path_traversal(judged: Judged, reason: str) -> Finding:
    text = f"the path {shown(judged.text)} may leave its folder: {reason}."
    return _finding(judged, text, error_code="PATH_TRAVERSAL", reason=reason)


def _computed_url(node: Node, name: str, source: str) -> Finding:
    return Finding(
        "security",
        "error",
        "UNAUTHORIZED_DOMAIN",
        f"Node '{node.id}', input '{name}': the URL is made by node '{source}' as it runs, so that "
        "nobody can say whether its domain is allowed. Write it into the workflow.",
        node_id=node.id,
        path=f"{node.id}.inputs.{name}",
        details={"reason": "computed", "from_node": source, "domain": None},
    )


def _finding(judged: Judged, text: str, *, error_code: str, **details: Any) -> Finding:
    node = judged.node
    return Finding(
        "security",
        "error",
        error_code,
        f"Node '{node.id}' ({node.class_type}), input '{judged.input}': {text}",
        node_id=node.id,
        path=f"{node.id}.inputs.{judged.input}",
        details={"meaning": judged.meaning.value, **details},
    )
