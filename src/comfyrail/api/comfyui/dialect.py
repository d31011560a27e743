"""Errors as ComfyUI's clients read them."""

from typing import Any

from comfyrail.api.contract import ErrorReply
from comfyrail.engine import prompt_errors as say
from comfyrail.errors import ComfyrailError, IdempotencyMismatch

UNPROCESSABLE = 422


def translate(body: ErrorReply, status: int, error: ComfyrailError) -> tuple[Any, int]:
    """In the shape of a prompt's refusal, which every client of ComfyUI can read."""
    said = body.error
    fault = say.fault(said.code.lower(), said.message, said.message)
    if said.details:
        fault["extra_info"] = dict(said.details)
    is_bad = status == UNPROCESSABLE and not isinstance(error, IdempotencyMismatch)
    return say.refusal(fault), 400 if is_bad else status


def translate_job(body: ErrorReply, status: int, _error: ComfyrailError) -> tuple[Any, int]:
    """/api/jobs has a shorter one."""
    return {"error": body.error.message}, status
