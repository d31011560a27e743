"""Errors as the Comfy API v2 says them. Its envelope is ours with other codes."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from comfyrail.api.comfy_v2.words import (
    ERRORS,
    INVALID_WORKFLOW,
    QUEUE_FULL,
    STATUS_ERRORS,
    UPSTREAM_ERROR,
)
from comfyrail.api.contract import ErrorReply
from comfyrail.errors import ComfyrailError, InvalidWorkflow

RATE_LIMITED = 429


def translate(body: ErrorReply, status: int, error: ComfyrailError) -> tuple[Any, int]:
    code, status = _words_for(status, error)
    details: dict[str, Any] = {**body.error.details, "comfyrail_code": body.error.code}
    if isinstance(error, InvalidWorkflow):
        details["node_errors"] = node_errors(error.details.get("findings", ()))
    said = msgspec.structs.replace(body.error, code=code, details=details)
    return ErrorReply(error=said), status


def translate_submission(body: ErrorReply, status: int, error: ComfyrailError) -> tuple[Any, int]:
    """Whoever submits too much at once is to try again, as with a queue that is full."""
    reply, status = translate(body, status, error)
    if status == RATE_LIMITED:
        reply.error.code = QUEUE_FULL
    return reply, status


def node_errors(findings: Sequence[Mapping[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The findings that are errors of one node, by node."""
    found: dict[str, list[dict[str, Any]]] = {}
    for finding in findings:
        node = finding.get("node_id")
        if node is None or finding.get("severity") != "error":
            continue
        place = (finding.get("path") or "").removeprefix(f"{node}.").removeprefix("inputs.")
        found.setdefault(node, []).append(
            {
                "field": place or None,
                "reason": str(finding["error_code"]).lower(),
                "message": finding["message"],
            }
        )
    return found


def _words_for(status: int, error: ComfyrailError) -> tuple[str, int]:
    if error.code in ERRORS:
        return ERRORS[error.code]
    if isinstance(error, InvalidWorkflow):
        return INVALID_WORKFLOW, 422
    return STATUS_ERRORS.get(status, (UPSTREAM_ERROR, status))
