"""Exit codes, and how errors are said on a terminal."""

import asyncio
import sys
from collections.abc import Coroutine
from typing import Any, NoReturn, TypeVar

from rich.text import Text

from comfyrail.cli.terminal import errors, plain
from comfyrail.client import (
    KEY_VARIABLE,
    SERVER_VARIABLE,
    InvalidAddress,
    InvalidRequest,
    RequestFailed,
    ServerUnreachable,
    UnexpectedReply,
)

FAILED = 1
WRONG_USE = 2
CANNOT_START = 3
INTERRUPTED = 130
UNKNOWN_CALLER = 401
NO_SUCH_KEY = frozenset({"UNAUTHORIZED", "KEY_UNKNOWN", "TOKEN_INVALID"})
"""No key was sent, or one that is not known. What is said of others is about the key itself."""

Result = TypeVar("Result")


def explain_and_exit(message: str, code: int) -> NoReturn:
    errors.print(Text.assemble(("Error:", "bold red"), " ", plain(message)), soft_wrap=True)
    sys.exit(code)


def call_server(work: Coroutine[Any, Any, Result], *, explains_refusal: bool = True) -> Result:
    """Run something against a server; what it refuses becomes a sentence and an exit code.

    Without `explains_refusal` the caller gets RequestFailed and says it better.
    """
    try:
        return asyncio.run(work)
    except ServerUnreachable as error:
        explain_and_exit(
            f"{error}. Start a server with: comfyrail serve, or name yours with --server or "
            f"{SERVER_VARIABLE}.",
            CANNOT_START,
        )
    except (InvalidAddress, UnexpectedReply) as error:
        explain_and_exit(f"{error}.", CANNOT_START)
    except InvalidRequest as error:
        explain_and_exit(f"{error}.", WRONG_USE)
    except RequestFailed as error:
        if not explains_refusal:
            raise
        findings = [
            str(finding.get("message"))
            for finding in error.findings
            if finding.get("severity") == "error"
        ]
        explain_and_exit("\n       ".join(findings) or _refusal(error), WRONG_USE)


def _refusal(error: RequestFailed) -> str:
    if error.status == UNKNOWN_CALLER and error.body.get("code") in NO_SUCH_KEY:
        return f"{error} Commands take it from the environment: export {KEY_VARIABLE}=…"
    return str(error)
