"""Mending common faults [2.7]: only inputs that are wrong, and only where one repair is clear."""

import math
import re
from collections.abc import Collection, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any

from comfyrail.validation.context import ValidationContext
from comfyrail.validation.findings import Finding
from comfyrail.validation.limits import limit_on
from comfyrail.validation.literals import LARGEST_NUMBER, SMALLEST_NUMBER, find_fault
from comfyrail.validation.missing_models import file_name, find_missing_models
from comfyrail.validation.node_checks import ExaminedNode, dynamic_choices, examine
from comfyrail.validation.policy import WorkflowLimits
from comfyrail.validation.syntax import check_syntax
from comfyrail.workflow.catalog import InputPort
from comfyrail.workflow.graph import Workflow
from comfyrail.workflow.nearest import Suggestions, printable, shown
from comfyrail.workflow.values import unwrap

ONE_SLIP = 5
TWO_SLIPS = 9
"""How many letters a word has at least for one letter, or two, to be clearly a slip."""
LONGEST_NAME = 200
MOST_SEARCHES = 20
"""For names: a search is slow, and a workflow may have a thousand faults."""

_NOTHING = object()
_WORD = re.compile(r"[^\W\d_]+")
_MARKS = re.compile(r"[\s_./\\-]+")


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

    A workflow without errors comes back as it is: what gives a warning may be meant.
    """
    examined = [each for each in examine(workflow, context.catalog) if each.check is not None]
    faults = check_syntax(examined, context.catalog)
    faults.extend(find_missing_models(examined, context, Suggestions(0)))
    by_id = {each.node.id: each for each in examined}
    fixes: list[Fix] = []
    suggestions = Suggestions(MOST_SEARCHES)
    for finding in faults:
        each = by_id.get(finding.node_id or "")
        if each is not None and finding.severity == "error":
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
        port = _within_limits(port, each, limits)
    after = _NOTHING if port is None else _mended(port, unwrap(before), finding, suggestions)
    if port is None or after is _NOTHING or find_fault(each.node.class_type, port, after):
        return []
    message = f"Node '{each.node.id}', input '{name}': {shown(before)} was made {shown(after)}."
    path = finding.path or ""
    return [Fix(each.node.id, path, finding.error_code, before, after, message)]


def _within_limits(port: InputPort, each: ExaminedNode, limits: WorkflowLimits) -> InputPort:
    """The port as narrow as the policy makes it: no mending into another refusal."""
    limit = limit_on(each.node.class_type, port.name, each.node.inputs)
    allowed = None if limit is None else getattr(limits, limit)
    if allowed is None or port.name.endswith("megapixels"):
        return port
    return replace(port, maximum=allowed if port.maximum is None else min(port.maximum, allowed))


def _mended(port: InputPort, value: Any, finding: Finding, suggestions: Suggestions) -> Any:
    reason = finding.details.get("reason")
    if finding.error_code == "MODEL_NOT_FOUND" or reason == "value_not_in_list":
        find = _clear_model if finding.error_code == "MODEL_NOT_FOUND" else _clear_choice
        choices = port.choices if port.choices is not None else dynamic_choices(port)
        found = suggestions.search(lambda _: [find(value, choices or ())])
        return found[0] if found else _NOTHING
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


def _clear_name(text: str, known: Collection[str]) -> str | None:
    """The one name of which this is clearly a misspelling; None where there may be another."""
    text = text.strip()
    same = [name for name in known if name.casefold() == text.casefold()]
    if same or len(text) > LONGEST_NAME:
        return same[0] if len(same) == 1 else None
    vocabulary = {word for name in known for word in _words(name)}
    clear = [name for name in known if _is_misspelt(text, name, vocabulary)]
    return clear[0] if len(clear) == 1 else None


def _words(name: str) -> list[str]:
    return _WORD.findall(name.casefold())


def _is_misspelt(text: str, meant: str, vocabulary: AbstractSet[str]) -> bool:
    """Whether a name is the one that is meant, but for the marks between words and for slips.

    A word that some name has is not misspelt: `high` is not `low`, and `i2v` is not `t2v`. Nor is
    a digit: another number is another thing.
    """
    if _without_marks(text) == _without_marks(meant):
        return True
    if _without_words(text) != _without_words(meant):
        return False
    return all(
        one == other or (one not in vocabulary and _is_slip(one, other))
        for one, other in zip(_words(text), _words(meant), strict=True)
    )


def _without_marks(name: str) -> str:
    return _MARKS.sub("", name.casefold())


def _without_words(name: str) -> str:
    return _MARKS.sub("", _WORD.sub("a", name.casefold()))


def _is_slip(one: str, other: str) -> bool:
    """Whether a word is another one with a letter or two wrong. Nobody errs at the first letter,
    and in a short word each letter counts: `ddim` is not `ddpm`.
    """
    length = max(len(one), len(other))
    most = 2 if length >= TWO_SLIPS else 1
    is_near = abs(len(one) - len(other)) <= most and one[0] == other[0]
    return length >= ONE_SLIP and is_near and _slips(one, other) <= most


def _slips(one: str, other: str) -> int:
    """Letters left out, put in, changed or swapped (optimal string alignment)."""
    before: list[int] = []
    last = list(range(len(other) + 1))
    for row, letter in enumerate(one, 1):
        current = [row]
        for column, opposite in enumerate(other, 1):
            changed = last[column - 1] + (letter != opposite)
            best = min(last[column] + 1, current[column - 1] + 1, changed)
            if row > 1 and column > 1 and letter == other[column - 2] and one[row - 2] == opposite:
                best = min(best, before[column - 2] + 1)
            current.append(best)
        before, last = last, current
    return last[-1]
