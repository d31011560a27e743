"""Inputs that a workflow declares: names for people, with types, defaults and limits."""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from dataclasses import fields as dataclass_fields
from typing import Any, Literal, get_args

from comfyrail.errors import MalformedWorkflow
from comfyrail.workflow.declared_values import fit_declared_value
from comfyrail.workflow.graph import Workflow
from comfyrail.workflow.nearest import Suggestions, did_you_mean, shown
from comfyrail.workflow.values import ValueFault

InputType = Literal[
    "text",
    "integer",
    "number",
    "boolean",
    "choice",
    "seed",
    "image",
    "mask",
    "video",
    "audio",
    "any",
]
INPUT_TYPES: tuple[InputType, ...] = get_args(InputType)
WITH_RANGE = {"integer", "number", "seed"}

MOST_INPUTS = 200
MOST_TARGETS = 50
MOST_CHOICES = 1000
LONGEST_TARGET = 500
LONGEST_LABEL = 200
LONGEST_TEXT = 10_000
NAME_RULE = "a letter, then at most 63 letters, digits, '_' or '-'"

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")


@dataclass(frozen=True, slots=True)
class DeclaredInput:
    """A name that `input_params` may use, and where its value goes.

    A target is written as a parameter is: the id or the title of a node, a dot and an input. Where
    the node has one value that is no link, the node alone is enough.
    """

    name: str
    targets: tuple[str, ...]
    type: InputType = "any"
    label: str | None = None
    description: str | None = None
    default: Any = None
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[Any, ...] | None = None
    required: bool = False

    def as_dict(self) -> dict[str, Any]:
        """As it may be declared, without the fields that say nothing."""
        fields = {each.name: getattr(self, each.name) for each in dataclass_fields(self)}
        if not self.required:
            del fields["required"]
        return {name: value for name, value in fields.items() if value is not None}


def declared_inputs_of(workflow: Workflow) -> tuple[DeclaredInput, ...]:
    """What the workflow's envelope declares beside its nodes."""
    raw = workflow.metadata.get("inputs") if workflow.metadata else None
    return () if raw is None else parse_declared_inputs(raw)


def parse_declared_inputs(raw: object) -> tuple[DeclaredInput, ...]:
    """Read a list of inputs with their names, or an object of inputs by name.

    An input is an object, or just its target. Raises MalformedWorkflow with all findings.
    """
    suggestions = Suggestions()
    findings: list[dict[str, Any]] = []
    declared: dict[str, DeclaredInput] = {}
    for where, entry in _entries(raw):
        faults = list(_faults_of(entry, suggestions))
        if not faults:
            made = _read(entry)
            faults = list(_faults_together(made))
            if made.name.casefold() in declared:
                faults.append(("name", f"the name '{made.name}' is declared twice."))
            declared.setdefault(made.name.casefold(), made)
        findings.extend(_finding(where, field, message) for field, message in faults)
    if findings:
        more = f" And {len(findings) - 1} more: see the findings." if len(findings) > 1 else ""
        raise MalformedWorkflow(findings[0]["message"] + more, findings=findings)
    return tuple(declared.values())


def _entries(raw: object) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each input with the place that a finding names."""
    if not isinstance(raw, list | Mapping):
        raise _refusal("", f"Declared inputs are a list or an object, not {shown(raw)}.")
    if len(raw) > MOST_INPUTS:
        raise _refusal("", f"At most {MOST_INPUTS} inputs can be declared, not {len(raw)}.")
    pairs = raw.items() if isinstance(raw, Mapping) else enumerate(raw)
    for key, entry in pairs:
        place = str(key)[:LONGEST_LABEL]
        fields: object = {"target": entry} if isinstance(entry, str | list) else entry
        if not isinstance(fields, Mapping):
            raise _refusal(place, f"A declared input is an object, not {shown(entry)}.")
        yield place, {"name": key, **fields} if isinstance(raw, Mapping) else fields


def _is_name(value: object) -> bool:
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


def _is_target(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= LONGEST_TARGET


def _are_targets(value: object) -> bool:
    if isinstance(value, list):
        return 0 < len(value) <= MOST_TARGETS and all(map(_is_target, value))
    return _is_target(value)


def _is_number(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)


def _is_plain(value: object) -> bool:
    if isinstance(value, str):
        return len(value) <= LONGEST_TEXT
    return isinstance(value, bool) or _is_number(value)


def _are_choices(value: object) -> bool:
    return isinstance(value, list) and 0 < len(value) <= MOST_CHOICES and all(map(_is_plain, value))


def _is_text(longest: int) -> Callable[[object], bool]:
    return lambda value: isinstance(value, str) and len(value) <= longest


_FIELDS: dict[str, tuple[Callable[[object], bool], str]] = {
    "name": (_is_name, NAME_RULE),
    "target": (_are_targets, "like '6.text', or a list of such"),
    "targets": (_are_targets, "a list of targets like '6.text'"),
    "type": (lambda value: value in INPUT_TYPES, f"one of {', '.join(INPUT_TYPES)}"),
    "label": (_is_text(LONGEST_LABEL), f"a text of at most {LONGEST_LABEL} characters"),
    "description": (_is_text(LONGEST_TEXT), f"a text of at most {LONGEST_TEXT} characters"),
    "default": (_is_plain, "a text, a number or a boolean"),
    "minimum": (_is_number, "a number"),
    "maximum": (_is_number, "a number"),
    "choices": (_are_choices, f"a list of 1 to {MOST_CHOICES} texts, numbers or booleans"),
    "required": (lambda value: isinstance(value, bool), "true or false"),
}


def _faults_of(entry: Mapping[str, Any], suggestions: Suggestions) -> Iterator[tuple[str, str]]:
    """What is wrong with each field by itself: the field, and the rest of a sentence."""
    for field in entry:
        if field not in _FIELDS:
            near = did_you_mean(suggestions.near(str(field), _FIELDS))
            yield str(field)[:LONGEST_LABEL], f"there is no field {shown(field)}.{near}"
    for field, (is_right, wanted) in _FIELDS.items():
        value = entry.get(field)
        if value is not None and not is_right(value):
            yield field, f"its {field} must be {wanted}, not {shown(value)}."
    if entry.get("name") is None:
        yield "name", "it has no name."
    if (entry.get("target") is None) == (entry.get("targets") is None):
        yield "target", "it needs a target, such as '6.text'."


def _read(entry: Mapping[str, Any]) -> DeclaredInput:
    """An input whose fields are right, each by itself."""
    targets = entry.get("target") or entry["targets"]
    choices = entry.get("choices")
    return DeclaredInput(
        name=entry["name"],
        targets=(targets,) if isinstance(targets, str) else tuple(targets),
        type=entry.get("type") or ("choice" if choices else "any"),
        label=entry.get("label"),
        description=entry.get("description"),
        default=entry.get("default"),
        minimum=entry.get("minimum"),
        maximum=entry.get("maximum"),
        choices=tuple(choices) if choices else None,
        required=bool(entry.get("required")),
    )


def _faults_together(made: DeclaredInput) -> Iterator[tuple[str, str]]:
    """What is wrong with the fields together."""
    if (made.type == "choice") != (made.choices is not None):
        yield "choices", "choices belong to the type choice, and it needs them."
        return
    bounds = (made.minimum, made.maximum)
    if made.type not in WITH_RANGE and bounds != (None, None):
        yield "minimum", f"the type {made.type} has no minimum and no maximum."
        return
    if made.minimum is not None and made.maximum is not None and made.minimum > made.maximum:
        yield "minimum", f"its minimum {made.minimum} is more than its maximum {made.maximum}."
        return
    if made.default is not None:
        fitted = fit_declared_value(made, made.default)
        if isinstance(fitted, ValueFault):
            yield "default", f"its default {fitted.message}"


def _refusal(where: str, message: str) -> MalformedWorkflow:
    return MalformedWorkflow(message, findings=[_fault(where, message)])


def _finding(where: str, field: str, message: str) -> dict[str, Any]:
    return _fault(f"{where}.{field}", f"Declared input '{where}': {message}")


def _fault(path: str, message: str) -> dict[str, Any]:
    return {
        "stage": "syntax",
        "severity": "error",
        "error_code": MalformedWorkflow.code,
        "message": message,
        "node_id": None,
        "path": f"inputs.{path}".rstrip("."),
        "details": {},
    }
