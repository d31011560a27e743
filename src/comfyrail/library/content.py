"""What the files of a version say."""

from typing import Any, NoReturn

import msgspec
import yaml

from comfyrail.errors import InvalidLibraryEntry, MalformedWorkflow
from comfyrail.library.files import INPUTS_JSON, INPUTS_YAML, WORKFLOW_FILE, Files
from comfyrail.workflow.declared_inputs import DeclaredInput, parse_declared_inputs

MOST_YAML_DEPTH = 20
BYTE_ORDER_MARK = b"\xef\xbb\xbf"

_YAML_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_OPENING = (yaml.MappingStartEvent, yaml.SequenceStartEvent)
_CLOSING = (yaml.MappingEndEvent, yaml.SequenceEndEvent)


def workflow_in(files: Files) -> dict[str, Any]:
    """The workflow's own JSON. Raises MalformedWorkflow where it is none."""
    if WORKFLOW_FILE not in files:
        raise InvalidLibraryEntry(f"There is no {WORKFLOW_FILE}.", code="WORKFLOW_DAMAGED")
    workflow = _read_json(WORKFLOW_FILE, files[WORKFLOW_FILE])
    if not isinstance(workflow, dict):
        raise MalformedWorkflow("A workflow is a JSON object.", details={"path": ""})
    return workflow


def declared_in(files: Files) -> tuple[DeclaredInput, ...] | None:
    """The inputs that a file declares; None where there is no such file."""
    for name in (INPUTS_YAML, INPUTS_JSON):
        if name in files:
            raw = read_inputs(name, files[name])
            return () if raw is None else parse_declared_inputs(raw)
    return None


def read_inputs(name: str, content: bytes) -> Any:
    """What a file of inputs holds, by its name YAML or JSON; None where it is empty."""
    is_json = name.lower().endswith(".json")
    return _read_json(name, content) if is_json else read_yaml(name, content)


def encode_declared(declared: tuple[DeclaredInput, ...]) -> bytes:
    """Declared inputs as a file that people can read."""
    plain = msgspec.json.encode([each.as_dict() for each in declared])
    return msgspec.json.format(plain, indent=2)


def read_yaml(name: str, content: bytes) -> Any:
    """Plain data out of YAML: no aliases, which can make much of little, and not deep."""
    try:
        text = content.decode("utf-8-sig")
        depth = 0
        for event in yaml.parse(text, Loader=_YAML_LOADER):
            depth += isinstance(event, _OPENING) - isinstance(event, _CLOSING)
            if isinstance(event, yaml.AliasEvent) or depth > MOST_YAML_DEPTH:
                _refuse(name, "it has an alias (*name) or is nested too deeply")
        return yaml.load(text, Loader=_YAML_LOADER)  # noqa: S506 - it is one of the safe loaders
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        why = " ".join(str(error).split()).replace('in "<unicode string>", line', "in line")
        raise MalformedWorkflow(f"{name} is not YAML: {why}.", details={"path": name}) from error


def _read_json(name: str, content: bytes) -> Any:
    try:
        return msgspec.json.decode(content.removeprefix(BYTE_ORDER_MARK))
    except (ValueError, RecursionError) as error:
        raise MalformedWorkflow(f"{name} is not JSON: {error}.", details={"path": name}) from error


def _refuse(name: str, why: str) -> NoReturn:
    raise MalformedWorkflow(f"{name} cannot be read: {why}.", details={"path": name})
