"""Stage 3: what a workflow may not do, whoever runs it. `meanings` has the rule for texts."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from comfyrail.network.urls import without_secrets
from comfyrail.validation.context import ValidationContext
from comfyrail.validation.dangerous_texts import find_code, find_escape, find_escape_of_part
from comfyrail.validation.findings import Finding
from comfyrail.validation.limits import check_amounts, check_node_count, check_sizes
from comfyrail.validation.meanings import (
    JUDGED_AT_THE_END,
    Meaning,
    prepare_meanings,
)
from comfyrail.validation.node_checks import ExaminedNode
from comfyrail.validation.policy import DENIED_NODE_TYPES, SecurityPolicy
from comfyrail.validation.text_flow import (
    MOST_ALTERNATIVES,
    Judged,
    Part,
    TextFlow,
    link_in,
    texts_in,
)
from comfyrail.validation.urls import find_url_fault, is_url, whole_url
from comfyrail.workflow.graph import Edge, Node, Workflow
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
    longest = policy.limits.max_string_length
    flow = TextFlow(workflow.nodes, context.catalog.prepared(prepare_meanings))
    for judged in judged_texts(workflow, flow):
        if longest is None or all(len(part.text) <= longest for part in judged.parts):
            findings.extend(_judge_text(judged, policy))
    if not policy.allow_computed_urls:
        findings.extend(map(_computed_url, flow.computed_urls))
    findings.extend(map(_not_followed, flow.not_followed))
    return findings


def judged_texts(workflow: Workflow, flow: TextFlow) -> Iterator[Judged]:
    """Every literal text that something may act on, with what it means."""
    seeds: list[tuple[Edge, Meaning]] = []
    for node in workflow.nodes.values():
        known = flow.meanings(node)
        for name, value in node.inputs.items():
            kind = type(value)
            if kind is not str and kind is not dict and kind is not list:
                continue
            meaning = known.of(name)
            if meaning is None or meaning is Meaning.TEXT:
                continue
            if known.only_passes and meaning not in JUDGED_AT_THE_END:
                continue
            link = None if kind is str else link_in(value)
            if link is not None:
                seeds.append((Edge(*link, node.id, name), meaning))
            elif kind is not list:
                for text in texts_in(value):
                    yield Judged(text, meaning, (Part(node, name, text),))
    if seeds:
        yield from flow.texts_that_reach(seeds)


def _judge_text(judged: Judged, policy: SecurityPolicy) -> Iterator[Finding]:
    text, meaning = judged.text, judged.meaning
    if not text or meaning is Meaning.TEXT:
        return
    found = find_code(text, meaning)
    if found is not None:
        yield _code_injection(judged, found)
        return
    reason = _find_escape(judged, policy) if meaning is Meaning.PATH else None
    if reason is not None:
        yield _path_traversal(judged, reason)
    elif judged.whole and (meaning is Meaning.URL or is_url(text)):
        yield from _judge_url(judged, policy)
    elif judged.begins and meaning is not Meaning.URL and is_url(text):
        yield from _judge_begun_url(judged, policy)


def _find_escape(judged: Judged, policy: SecurityPolicy) -> str | None:
    folders = policy.allowed_folders
    if judged.whole:
        return find_escape(judged.text, folders)
    return find_escape_of_part(judged.text, folders, begins=judged.begins)


def _judge_url(judged: Judged, policy: SecurityPolicy) -> Iterator[Finding]:
    url = judged.text.strip()
    if url.lower().startswith(_RUN_BY_BROWSERS):
        yield _code_injection(judged, url.partition(":")[0] + ":")
        return
    fault = find_url_fault(whole_url(url), policy)
    if fault is not None:
        yield _finding(
            judged,
            f"the URL {shown(without_secrets(url))} may not be used. {fault.text}",
            error_code="UNAUTHORIZED_DOMAIN",
            reason=fault.reason,
            domain=fault.domain,
        )


def _judge_begun_url(judged: Judged, policy: SecurityPolicy) -> Iterator[Finding]:
    """A text that begins a URL, of which another node makes the rest as it runs."""
    if not policy.allow_computed_urls:
        text = (
            "it begins a URL, of which another node makes the rest as it runs, so that nobody can "
            "say whether its domain is allowed. Write it into the workflow."
        )
        yield _finding(
            judged, text, error_code="UNAUTHORIZED_DOMAIN", reason="computed", domain=None
        )


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
    return _finding(
        judged,
        text,
        error_code="CODE_INJECTION",
        is_at_fault=lambda part: find_code(part, judged.meaning) is not None,
        match=found[:80],
    )


def _path_traversal(judged: Judged, reason: str) -> Finding:
    text = f"the path {shown(without_secrets(judged.text))} may leave its folder: {reason}."
    return _finding(
        judged,
        text,
        error_code="PATH_TRAVERSAL",
        is_at_fault=lambda part: find_escape_of_part(part, (), begins=False) is not None,
        reason=reason,
    )


def _computed_url(edge: Edge) -> Finding:
    return Finding(
        "security",
        "error",
        "UNAUTHORIZED_DOMAIN",
        f"Node '{edge.target}', input '{edge.input}': the URL is made by node '{edge.source}' as "
        "it runs, so that nobody can say whether its domain is allowed. Write it into the "
        "workflow.",
        node_id=edge.target,
        path=f"{edge.target}.inputs.{edge.input}",
        details={"reason": "computed", "from_node": edge.source, "domain": None},
    )


def _not_followed(node: Node) -> Finding:
    return Finding(
        "security",
        "error",
        "LIMIT_EXCEEDED",
        f"Node '{node.id}' ({node.class_type}) gives one of so many texts, or so long a one, to an "
        "input that may act on it, that they cannot be judged. Write the text there instead.",
        node_id=node.id,
        path=node.id,
        details={"limit": "joined_texts", "allowed": MOST_ALTERNATIVES, "actual": None},
    )


def _finding(
    judged: Judged,
    text: str,
    *,
    error_code: str,
    is_at_fault: Callable[[str], bool] = is_url,
    **details: Any,
) -> Finding:
    """Where a text is joined of several, the finding is at the one that is at fault by itself."""
    part = next((each for each in judged.parts if is_at_fault(each.text)), judged.parts[0])
    node = part.node
    return Finding(
        "security",
        "error",
        error_code,
        f"Node '{node.id}' ({node.class_type}), input '{part.input}': {text}",
        node_id=node.id,
        path=f"{node.id}.inputs.{part.input}",
        details={"meaning": judged.meaning.value, **details},
    )
