"""What a user gives to `comfyrail run`: the workflow's file or name, and single inputs."""

import json
import sys
from pathlib import Path
from typing import Any, NoReturn

from comfyrail.cli.exits import WRONG_USE, explain_and_exit
from comfyrail.errors import MalformedWorkflow
from comfyrail.library.names import is_name
from comfyrail.workflow.editor.source import read_workflow_source

LARGEST_FILE = 64 << 20
STANDARD_INPUT = Path("-")
FILE_ENDINGS = {".json", ".png", ".webp"}


def is_library_reference(path: Path) -> bool:
    """Whether it is no file, and like NAME or NAME@VERSION of a workflow in a library."""
    name = str(path).partition("@")[0]
    if path == STANDARD_INPUT:
        return False
    return is_name(name) and path.suffix.lower() not in FILE_ENDINGS and not path.exists()


def read_limited(path: Path, limit: int) -> bytes:
    """The content of a file, or the end of the command. `-` is standard input."""
    try:
        if path == STANDARD_INPUT:
            content = sys.stdin.buffer.read(limit + 1)
        else:
            with path.open("rb") as file:
                content = file.read(limit + 1)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        explain_and_exit(f"{path} cannot be read: {why}.", WRONG_USE)
    if len(content) > limit:
        size = f"{limit >> 20} MiB" if limit >= 1 << 20 else f"{limit >> 10} KiB"
        explain_and_exit(f"{path} is larger than {size}, too large for this.", WRONG_USE)
    return content


def read_workflow(path: Path) -> dict[str, Any]:
    """The workflow in a file, or the end of the command: JSON, or a picture that holds it."""
    content = read_limited(path, LARGEST_FILE)
    try:
        workflow = read_workflow_source(content)
    except MalformedWorkflow as error:
        if "reason" in error.details:
            explain_and_exit(f"{path} is not JSON: {error.details['reason']}.", WRONG_USE)
        explain_and_exit(f"{path}: {error.message}", WRONG_USE)
    if not isinstance(workflow, dict):
        explain_and_exit(f"{path} is not a workflow: it must be a JSON object.", WRONG_USE)
    return workflow


def read_setting(text: str) -> tuple[str, Any]:
    """NODE.INPUT=VALUE, or NAME=VALUE of a declared input: the name and the value."""
    name, equals, written = text.partition("=")
    if not equals or not name:
        explain_and_exit(
            f"--set takes NODE.INPUT=VALUE, or NAME=VALUE of a declared input, not {text!r}.",
            WRONG_USE,
        )
    value = _read_value(written)
    try:
        _check_text([name, value])
    except (ValueError, RecursionError) as error:
        explain_and_exit(f"--set {text}: {error}.", WRONG_USE)
    return name, value


def _read_value(written: str) -> Any:
    """JSON where it is JSON; a number only as JSON itself writes it, or 1.10 would become 1.1."""
    try:
        value = json.loads(written, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return written
    if isinstance(value, int | float) and json.dumps(value) != written:
        return written
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _check_text(value: Any) -> None:
    """Raises ValueError for half a character, which JSON can escape and nothing can send."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = f"U+{ord(error.object[error.start]):04X}"
        raise ValueError(f"{half} is half a character (a lone surrogate)") from error
