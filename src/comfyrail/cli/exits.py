"""Exit codes, and how errors are said on a terminal."""

import asyncio
import sys
from collections.abc import Coroutine
from typing import Any, NoReturn, TypeVar

from rich.console import Console

from comfyrail.client import RequestFailed, ServerUnreachable

FAILED = 1
WRONG_USE = 2
CANNOT_START = 3
INTERRUPTED = 130

Result = TypeVar("Result")

errors = Console(stderr=True, highlight=False)


def explain_and_exit(message: str, code: int) -> NoReturn:
    errors.print(f"[bold red]Error:[/] {_plain(message)}", soft_wrap=True)
    sys.exit(code)


def call_server(work: Coroutine[Any, Any, Result]) -> Result:
    """Run something against a server; what it refuses becomes a sentence and an exit code."""
    try:
        return asyncio.run(work)
    except ServerUnreachable as error:
        explain_and_exit(f"{error}. Start a server with: comfyrail serve", CANNOT_START)
    except RequestFailed as error:
        findings = [str(finding.get("message")) for finding in error.findings]
        explain_and_exit("\n       ".join(findings) or str(error), WRONG_USE)


def _plain(text: str) -> str:
    return text.replace("[", r"\[")
