"""Mending common faults [2.7]: only inputs that are wrong, and only where one repair is clear."""

import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from comfyrail.validation.context import ValidationContext
from comfyrail.validation.findings import Finding
from comfyrail.validation.limits import largest_allowed
from comfyrail.validation.literals import LARGEST_NUMBER, SMALLEST_NUMBER, find_fault
from comfyrail.validation.missing_models import file_name, find_missing_models
from comfyrail.validation.node_checks import ExaminedNode, dynamic_choices, examine
from comfyrail.validation.policy import WorkflowLimits
from comfyrail.validation.syntax import check_syntax
from comfyrail.workflow.catalog import InputPort
from comfyrail.workflow.graph import Workflow
from comfyrail.workflow.nearest import Suggestions, nearest_names, printable, shown
from comfyrail.workflow.values import unwrap

CLEAR_LIKENESS = 0.75
CLEAR_LEAD = 0.08
"""How much more like the best name must be than the second best."""
MOST_SEARCHES = 20
"""For names: a search is slow, and a workflow may have a thousand faults."""

_NOTHING = object()


@dataclass(frozen=True, slots=True)
class Fix:
    """A change of one input; `code` is that of the finding that it mends."""

    node_id: str
    path: str
    code: str
    before: Any
    after: Any
    message: str

    def as_dict(self) -> dict[str, Any]:
        before = self.before if isinstance(self.before, bool | int | float) else shown(self.before)
        return {
            "node_id": self.node_id,
            "path": self.path,
            "code": self.code,
            "before": printable(self.before) if isinstance(self.before, str) else before,
            "after": self.after,
            "message": self.message,
        }


def auto_fix(workflow: Workflow, context: ValidationContext) -> tuple[Workflow, list[Fix]]:
    """The workflow with its faulty inputs mended where it is clear how, and a list of the changes.

    A workflow without faults comes back as it is.
    """
    examined = [each for each in examine(workflow, context.catalog) if each.check is not None]
    faults = check_syntax(examined, context.catalog)
    faults.extend(find_missing_models(examined, context, Suggestions(0)))
    by_id = {each.node.id: each for each in examined}
    fixes: list[Fix] = []
    suggestions = Suggestions(MOST_SEARCHES)
    for finding in faults:
        each = by_id.get(finding.node_id or "")
        if each is not None:
            fixes.extend(_fix(each, finding, suggestions, context.policy.limits))
    changes: dict[str, dict[str, Any]] = {}
    for fix in fixes:
        name = fix.path.removeprefix(f"{fix.node_id}.inputs.")
        changes.setdefault(fix.node_id, {})[name] = fix.after
    return (workflow.with_inputs(changes) if fixes else workflow), fixes


def _fix(
    each: ExaminedNode, finding: Finding, suggestions: Suggestions, limits: WorkflowLimits
) -> list[Fix]:
    name = (finding.path or "").removeprefix(f"{each.node.id}.inputs.")
    check = each.check
    if check is None or name not in each.node.inputs:
        return []
    port = check.ports.get(name) or check.type.inputs.get(name)
    before = each.node.inputs[name]
    if port is not None:
        port = _within_limits(port, each.node.class_type, limits)
    after = _NOTHING if port is None else _mended(port, unwrap(before), finding, suggestions)
    if port is None or after is _NOTHING or find_fault(each.node.class_type, port, after):
        return []
    message = f"Node '{each.node.id}', input '{name}': {shown(before)} was made {shown(after)}."
    path = finding.path or ""
    return [Fix(each.node.id, path, finding.error_code, before, after, message)]


def _within_limits(port: InputPort, class_type: str, limits: WorkflowLimits) -> InputPort:
    """The port as narrow as the policy makes it: no mending into another refusal."""
    allowed = largest_allowed(class_type, port.name, limits)
    if allowed is None or port.name.endswith("megapixels"):
        return port
    return replace(port, maximum=allowed if port.maximum is None else min(port.maximum, allowed))


def _mended(port: InputPort, value: Any, finding: Finding, suggestions: Suggestions) -> Any:
    reason = finding.details.get("reason")
    if finding.error_code == "MODEL_NOT_FOUND" or reason == "value_not_in_list":
        find = _clear_model if finding.error_code == "MODEL_NOT_FOUND" else _clear_choice
        choices = port.choices if port.choices is not None else dynamic_choices(port)
        found = suggestions.search(lambda: [find(value, choices or ())])
        return found[0] if found else _NOTHING
    if reason == "text_for_boolean":
        return False
    if reason == "invalid_input_type" and isinstance(value, str):
        value = _read_number(port, value)
        return value if value is _NOTHING else _clamped(port, value)
    if reason in {"value_smaller_than_min", "value_bigger_than_max", "number_too_large"}:
        return _clamped(port, value)
    return _NOTHING


def _read_number(port: InputPort, text: str) -> Any:
    """`"20.0"` for an INT: Python reads no integer there, but there is one."""
    try:
        number = float(text.strip())
    except (ValueError, OverflowError):
        return _NOTHING
    if not math.isfinite(number) or port.type not in {"INT", "FLOAT"}:
        return _NOTHING
    if port.type == "FLOAT":
        return number
    return int(number) if number.is_integer() else _NOTHING


def _clamped(port: InputPort, value: Any) -> Any:
    try:
        number = float(value) if port.type == "FLOAT" else int(value)
    except (ValueError, TypeError, OverflowError):
        return _NOTHING
    low = SMALLEST_NUMBER if port.minimum is None else port.minimum
    high = LARGEST_NUMBER if port.maximum is None else port.maximum
    clamped = min(max(number, low), high)
    if port.type == "FLOAT":
        return float(clamped)
    return math.ceil(clamped) if clamped == low else math.floor(clamped)


def _clear_choice(value: Any, choices: Sequence[Any]) -> Any:
    """The one choice that must be meant."""
    same_text = [choice for choice in choices if str(choice) == str(value)]
    if len(same_text) == 1:
        return same_text[0]
    if not isinstance(value, str):
        return _NOTHING
    by_text: dict[str, Any] = {str(choice): choice for choice in choices}
    name = _clear_name(value, by_text)
    return _NOTHING if name is None else by_text[name]


def _clear_model(value: Any, choices: Sequence[Any]) -> Any:
    known = {choice: None for choice in choices if isinstance(choice, str)}
    same_file = [choice for choice in known if file_name(choice) == file_name(str(value))]
    if len(same_file) == 1:
        return same_file[0]
    return _clear_name(str(value), known) or _NOTHING


def _clear_name(text: str, known: Mapping[str, Any]) -> str | None:
    folded = [name for name in known if name.casefold() == text.strip().casefold()]
    if len(folded) == 1:
        return folded[0]
    near = nearest_names(text, known, limit=2)
    scores = [_likeness(text, name) for name in near]
    if not near or scores[0] < CLEAR_LIKENESS or _digits(text) != _digits(near[0]):
        return None
    return near[0] if len(near) == 1 or scores[0] - scores[1] >= CLEAR_LEAD else None


def _digits(name: str) -> list[str]:
    """Another number is another thing: `model_v1` is not what `model_v2` was to be."""
    return [character for character in name if character.isdigit()]


def _likeness(one: str, other: str) -> float:
    return difflib.SequenceMatcher(None, one.casefold(), other.casefold()).ratio()
