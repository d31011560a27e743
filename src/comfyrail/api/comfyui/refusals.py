"""A workflow that was refused, in ComfyUI's words: our findings by node and output."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from comfyrail.engine import prompt_errors as say
from comfyrail.engine.prompt_errors import Fault
from comfyrail.errors import InvalidWorkflow, MalformedWorkflow
from comfyrail.workflow.catalog import InputPort, NodeCatalog
from comfyrail.workflow.dynamic_inputs import ports_of
from comfyrail.workflow.graph import is_link
from comfyrail.workflow.values import ValueFault, fit_value, unwrap

Prompt = Mapping[str, Any]
Finding = Mapping[str, Any]
NO_WORKER = (
    "No worker has this type: use another node, or add a worker that has it with "
    "'comfyrail workers add'."
)

TOO_LARGE = "LIMIT_EXCEEDED"
MOST_STEPS = 1_000_000
"""Outputs times nodes: with more nobody works out which output needs which node."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """`good`: the outputs that could be made all the same; ComfyUI makes them."""

    body: Mapping[str, Any]
    good: Sequence[str] = ()

    @property
    def node_errors(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.body["node_errors"]
        return found


def outputs_of(prompt: Prompt, catalog: NodeCatalog, targets: Collection[str] | None) -> list[str]:
    """The nodes that make something, of those that are wanted."""
    return [
        node_id
        for node_id, node in prompt.items()
        if (targets is None or node_id in targets) and _is_output(node, catalog)
    ]


def part_of(prompt: Prompt, outputs: Sequence[str]) -> dict[str, Any]:
    """The nodes that some outputs need, in the order of the prompt."""
    needed = _upstream(prompt, *outputs)
    return {node_id: node for node_id, node in prompt.items() if node_id in needed}


def refusal_of_all(error: InvalidWorkflow) -> Refusal | None:
    """Of a prompt that is too long, or no JSON: nobody need read it again to say so."""
    findings: Sequence[Finding] = error.details.get("findings", ())
    for each in findings:
        if each.get("node_id") is not None:
            continue
        if each["error_code"] == TOO_LARGE:
            return Refusal(say.refusal(_general(each["error_code"], each["message"])))
        if each["error_code"] == MalformedWorkflow.code and "reason" in each.get("details", {}):
            return Refusal(say.refusal(say.invalid_request(each["message"])))
    return None


def refusal_of(
    error: InvalidWorkflow, prompt: Prompt, catalog: NodeCatalog, targets: Sequence[str] | None
) -> Refusal:
    found: Sequence[Finding] = error.details.get("findings", ())
    findings = [each for each in found if each.get("severity") == "error"]
    whole = next(filter(None, (_whole_fault(each, prompt) for each in findings)), None)
    if whole is not None:
        return Refusal(say.refusal(whole))
    faults: dict[str, list[Fault]] = {}
    for each in findings:
        node_id = each.get("node_id")
        if not isinstance(node_id, str) or not isinstance(prompt.get(node_id), dict):
            return Refusal(say.refusal(_general(each["error_code"], each["message"])))
        faults.setdefault(node_id, []).append(_node_fault(each, prompt, catalog))
    if not faults:
        return Refusal(say.refusal(_general(error.code, error.message)))
    return _by_outputs(faults, prompt, outputs_of(prompt, catalog, targets))


def _by_outputs(
    faults: Mapping[str, list[Fault]], prompt: Prompt, outputs: Sequence[str]
) -> Refusal:
    if not outputs:
        return Refusal(say.refusal(say.no_outputs()))
    if len(outputs) * len(prompt) > MOST_STEPS:
        node_errors = {
            node_id: _node_errors(found, prompt[node_id], ()) for node_id, found in faults.items()
        }
        return Refusal(say.refusal(say.outputs_failed([]), node_errors))
    above = {output: _upstream(prompt, output) for output in outputs}
    node_errors = {
        node_id: _node_errors(
            found, prompt[node_id], [each for each in outputs if node_id in above[each]]
        )
        for node_id, found in faults.items()
        if any(node_id in above[output] for output in outputs)
    }
    own = [fault for output in outputs for fault in faults.get(output, ())]
    good = [output for output in outputs if above[output].isdisjoint(faults)]
    return Refusal(say.refusal(say.outputs_failed(own), node_errors), good)


def _node_errors(found: Sequence[Fault], node: Prompt, outputs: Sequence[str]) -> Mapping[str, Any]:
    return {
        "errors": found,
        "dependent_outputs": outputs,
        "class_type": node.get("class_type"),
    }


def _whole_fault(finding: Finding, prompt: Prompt) -> Fault | None:
    """What ComfyUI refuses a whole prompt for, at the first one that it finds."""
    code, node_id = finding["error_code"], str(finding.get("node_id"))
    if code == "UNKNOWN_NODE_TYPE":
        node = prompt.get(node_id)
        class_type = node.get("class_type") if isinstance(node, dict) else None
        return _no_worker_has(node_id, str(class_type))
    if code == "NO_OUTPUT_NODE":
        return say.no_outputs()
    if code == "CIRCULAR_DEPENDENCY":
        return say.cyclic(finding["message"])
    node = prompt.get(node_id)
    if code == MalformedWorkflow.code and _input_in(finding) == finding.get("path"):
        if isinstance(node, dict) and "class_type" not in node:
            return say.missing_class_type(node_id)
        return say.invalid_request(finding["message"], f"Node ID '#{node_id}'")
    return None


def _no_worker_has(node_id: str, class_type: str) -> Fault:
    said = say.unknown_class(node_id, class_type)
    return {**said, "message": f"{said['message']} {NO_WORKER}"}


def _general(code: str, message: str) -> Fault:
    """Of no node in particular: ComfyUI has no word for it."""
    return say.fault(code.lower(), message, message)


def _node_fault(finding: Finding, prompt: Prompt, catalog: NodeCatalog) -> Fault:
    node_id = finding["node_id"]
    node = prompt[node_id]
    inputs = node.get("inputs")
    inputs = inputs if isinstance(inputs, dict) else {}
    name = _input_in(finding)
    node_type = catalog.get(node.get("class_type"))
    port = None if node_type is None else ports_of(node_type, inputs).get(name)
    make = _FAULTS.get(finding["error_code"])
    if make is None or port is None:
        return say.failed_check(name, finding["message"])
    place = _Place(port, inputs.get(name), finding, is_output=_is_output(node, catalog))
    return make(place) or say.failed_check(name, finding["message"])


@dataclass(frozen=True, slots=True)
class _Place:
    port: InputPort
    value: Any
    finding: Finding
    is_output: bool

    @property
    def reason(self) -> str:
        return str(self.finding["details"].get("reason"))


def _missing(place: _Place) -> Fault:
    return say.missing_input(place.port.name, "v3" if "." in place.port.name else "v1")


def _bad_link(place: _Place) -> Fault:
    link = place.value
    if not isinstance(link, list) or len(link) != 2:
        return say.bad_link(place.port, link)
    error = (
        IndexError("tuple index out of range")
        if place.reason == "no_such_output"
        else KeyError(link[0])
    )
    if place.is_output:
        return say.check_raised(error, type(error).__name__)
    return say.inner_check_raised(error, type(error).__name__, place.port, link)


def _mismatch(place: _Place) -> Fault | None:
    received = place.finding["details"].get("actual_type")
    if received is None or not isinstance(place.value, list):
        return None
    return say.type_mismatch(place.port, str(received), place.value)


def _unfit(place: _Place) -> Fault | None:
    value = unwrap(place.value)
    found = fit_value(place.port, value)
    return say.unfit_value(place.port, found) if isinstance(found, ValueFault) else None


def _no_model(place: _Place) -> Fault:
    found = ValueFault("value_not_in_list", "Value not in list", place.value)
    return say.unfit_value(place.port, found)


_FAULTS: Mapping[str, Callable[[_Place], Fault | None]] = {
    "MISSING_REQUIRED_INPUT": _missing,
    "BAD_LINK": _bad_link,
    "TYPE_MISMATCH": _mismatch,
    "SCHEMA_VALIDATION_ERROR": _unfit,
    "MODEL_NOT_FOUND": _no_model,
}
"""By the code of a finding; all others are ComfyUI's `custom_validation_failed`."""


def _input_in(finding: Finding) -> str:
    """Of a path such as `3.inputs.width`."""
    path = str(finding.get("path") or "")
    return path.removeprefix(f"{finding.get('node_id')}.inputs.")


def _is_output(node: Any, catalog: NodeCatalog) -> bool:
    class_type = node.get("class_type") if isinstance(node, dict) else None
    found = catalog.get(class_type) if isinstance(class_type, str) else None
    return found is not None and found.is_output


def _upstream(prompt: Prompt, *outputs: str) -> set[str]:
    seen: set[str] = set()
    waiting = list(outputs)
    while waiting:
        node_id = waiting.pop()
        if node_id in prompt and node_id not in seen:
            seen.add(node_id)
            waiting.extend(_sources(prompt[node_id]))
    return seen


def _sources(node: Any) -> Iterator[str]:
    inputs = node.get("inputs") if isinstance(node, dict) else None
    for value in inputs.values() if isinstance(inputs, dict) else ():
        if is_link(value):
            yield value[0]
