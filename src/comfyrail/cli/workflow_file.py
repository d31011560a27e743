"""What a user gives to `comfyrail run`: the workflow's file and single inputs."""

import json
from pathlib import Path
from typing import Any, NoReturn

from comfyrail.cli.exits import WRONG_USE, explain_and_exit

LARGEST_FILE = 64 << 20


def read_workflow(path: Path) -> dict[str, Any]:
    """The workflow in a file, or the end of the command."""
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_FILE + 1)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        explain_and_exit(f"{path} cannot be read: {why}.", WRONG_USE)
    if len(content) > LARGEST_FILE:
        explain_and_exit(f"{path} is larger than 64 MiB, too large for a workflow.", WRONG_USE)
    try:
        workflow = json.loads(content, parse_constant=_refuse_constant)
        _check_text(workflow)
    except (ValueError, RecursionError) as error:
        explain_and_exit(f"{path} is not JSON: {error}.", WRONG_USE)
    if not isinstance(workflow, dict):
        explain_and_exit(f"{path} is not a workflow: it must be a JSON object.", WRONG_USE)
    return workflow


def read_setting(text: str) -> tuple[str, Any]:
    """NODE.INPUT=VALUE as the input's name and its value."""
    name, equals, written = text.partition("=")
    if not equals or "." not in name:
        explain_and_exit(f"--set takes NODE.INPUT=VALUE, not {text!r}.", WRONG_USE)
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
