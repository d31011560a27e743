"""Whether a prompt can run, by ComfyUI's rules and in ComfyUI's words.

Two things differ, neither in the shape of the reply: there is no recursion, so that a graph may be
as long as it likes; and a cycle is named in `details` and refuses the whole prompt, where ComfyUI
drops the outputs above it without a word.
"""

import asyncio
import inspect
from collections.abc import Coroutine, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from comfyrail.engine import prompt_errors as say
from comfyrail.engine.definition import InputFault, NodeDefinition, NodeInputs
from comfyrail.engine.failures import full_type_name
from comfyrail.engine.folders import Folders
from comfyrail.engine.invoke import NodeExited
from comfyrail.engine.prompt_errors import Fault
from comfyrail.engine.registry import BrokenNodeType, NodeRegistry, NodeView
from comfyrail.errors import CyclicWorkflow
from comfyrail.workflow.catalog import InputPort, types_match
from comfyrail.workflow.graph import is_link
from comfyrail.workflow.values import ValueFault, fit_value, unwrap


@dataclass(frozen=True, slots=True)
class PromptAccepted:
    """`prompt` has its literals converted; `node_errors` is about outputs that were dropped."""

    prompt: dict[str, Any]
    outputs: list[str]
    node_errors: dict[str, Any]


@dataclass(frozen=True, slots=True)
class PromptRefused:
    body: dict[str, Any]


def check_prompt(
    prompt: Any,
    registry: NodeRegistry,
    folders: Folders,
    targets: Sequence[str] | None = None,
) -> PromptAccepted | PromptRefused:
    """Judge a prompt as it came off the wire; `targets` limits the outputs that are wanted.

    Not to be called where an event loop runs, if node types judge their inputs in coroutines.
    """
    if prompt == []:
        prompt = {}
    if not isinstance(prompt, dict):
        return PromptRefused(say.refusal(say.invalid_request("The prompt is not a JSON object.")))
    types = registry.view()
    try:
        broken = _find_broken_entry(prompt, types)
    except BrokenNodeType as error:
        return PromptRefused(say.refusal(say.invalid_request(str(error))))
    if broken is not None:
        return PromptRefused(say.refusal(broken))
    outputs = [
        node_id
        for node_id, entry in prompt.items()
        if types[entry["class_type"]].is_output and (targets is None or node_id in targets)
    ]
    if not outputs:
        return PromptRefused(say.refusal(say.no_outputs()))
    return _judge_outputs(_GraphCheck(prompt, types, folders), outputs)


def _find_broken_entry(prompt: Mapping[str, Any], types: NodeView) -> Fault | None:
    for node_id, entry in prompt.items():
        if not isinstance(entry, dict):
            return say.invalid_request(
                f"Node '{node_id}' is not a JSON object.", f"Node ID '#{node_id}'"
            )
        if "class_type" not in entry:
            return say.missing_class_type(node_id)
        class_type = entry["class_type"]
        if not isinstance(class_type, str):
            return say.invalid_request(
                f"The class_type of node '{node_id}' is not a string.", f"Node ID '#{node_id}'"
            )
        if class_type not in types:
            return say.unknown_class(node_id, class_type)
        types[class_type]
    return None


def _judge_outputs(check: "_GraphCheck", outputs: Sequence[str]) -> PromptAccepted | PromptRefused:
    good: list[str] = []
    faults_of_outputs: list[Fault] = []
    try:
        for output in outputs:
            verdict = check.judge_output(output)
            if verdict.good:
                good.append(output)
            else:
                faults_of_outputs.extend(verdict.faults)
    except CyclicWorkflow as error:
        return PromptRefused(say.refusal(say.cyclic(error.message)))
    node_errors = check.node_errors(outputs)
    if not good:
        return PromptRefused(say.refusal(say.outputs_failed(faults_of_outputs), node_errors))
    return PromptAccepted(check.prompt, good, node_errors)


@dataclass(slots=True)
class _Verdict:
    """`good` covers the node and all that feeds it; `faults` are the node's own."""

    good: bool = True
    faults: list[Fault] = field(default_factory=list)

    def add(self, found: Fault) -> None:
        self.good = False
        self.faults.append(found)


_Step = Generator[str, _Verdict, _Verdict]
"""The check of one node: it yields the ids whose verdicts it needs before it can go on."""


class _GraphCheck:
    def __init__(self, prompt: Mapping[str, Any], types: NodeView, folders: Folders) -> None:
        self.prompt = dict(prompt)
        self._types = types
        self._folders = folders
        self._verdicts: dict[str, _Verdict] = {}

    def judge_output(self, output: str) -> _Verdict:
        try:
            return self._judge(output)
        except CyclicWorkflow:
            raise
        except Exception as error:  # noqa: BLE001 - reported as the node's fault
            verdict = _Verdict()
            verdict.add(say.check_raised(error, full_type_name(error)))
            self._verdicts[output] = verdict
            return verdict

    def node_errors(self, outputs: Sequence[str]) -> dict[str, Any]:
        """The nodes that have faults of their own, with the outputs that cannot be made so."""
        faulty = {node: verdict for node, verdict in self._verdicts.items() if verdict.faults}
        if not faulty:
            return {}
        entries = {
            node: {
                "errors": verdict.faults,
                "dependent_outputs": [],
                "class_type": self.prompt[node]["class_type"],
            }
            for node, verdict in faulty.items()
        }
        for output in outputs:
            for node in self._reachable_from(output):
                if node in entries:
                    entries[node]["dependent_outputs"].append(output)
        return entries

    def _reachable_from(self, output: str) -> list[str]:
        seen: dict[str, None] = {}
        waiting = [output]
        while waiting:
            node_id = waiting.pop()
            if node_id in self.prompt and node_id not in seen:
                seen[node_id] = None
                inputs = self.prompt[node_id].get("inputs")
                values = inputs.values() if isinstance(inputs, dict) else ()
                waiting.extend(value[0] for value in values if is_link(value))
        return list(seen)

    def _judge(self, node_id: str) -> _Verdict:
        """Drive the checks of a node and of all above it, on a stack of our own.

        An error in a check is raised in the check that asked for it, as a call would do.
        """
        if node_id in self._verdicts:
            return self._verdicts[node_id]
        path = {node_id: self._check_node(node_id)}
        answer: _Verdict | None = None
        error: Exception | None = None
        while True:
            current = next(reversed(path))
            step = path[current]
            try:
                wanted = step.throw(error) if error else step.send(answer)  # type: ignore[arg-type]
            except StopIteration as stop:
                answer, error = stop.value, None
                self._verdicts[current] = stop.value
            except Exception as raised:  # noqa: BLE001 - goes on to the check that asked
                answer, error = None, raised
            else:
                answer, error = self._verdicts.get(wanted), None
                if answer is None:
                    if wanted in path:
                        raise CyclicWorkflow(_cycle_in(list(path), wanted))
                    path[wanted] = self._check_node(wanted)
                continue
            del path[current]
            if not path:
                if error is not None:
                    raise error
                return self._verdicts[current]

    def _check_node(self, node_id: str) -> _Step:
        entry = self.prompt[node_id]
        definition = self._types[entry["class_type"]]
        inputs = dict(entry["inputs"])
        verdict = _Verdict()
        received: dict[str, str | None] = {}
        for port in definition.ports_for(inputs).values():
            if port.name not in inputs:
                if port.required:
                    verdict.add(say.missing_input(port.name, definition.schema))
            elif isinstance(inputs[port.name], list):
                yield from self._check_link(definition, port, inputs[port.name], verdict, received)
            else:
                _fit_literal(definition, port, inputs, verdict)
        self._run_own_check(node_id, definition, inputs, received, verdict)
        self.prompt[node_id] = {**entry, "inputs": inputs}
        return verdict

    def _check_link(
        self,
        definition: NodeDefinition,
        port: InputPort,
        link: list[Any],
        verdict: _Verdict,
        received: dict[str, str | None],
    ) -> Generator[str, _Verdict, None]:
        if len(link) != 2:
            verdict.add(say.bad_link(port, link))
            return
        source, slot = link
        if isinstance(slot, bool):
            raise TypeError("tuple indices must be integers or slices, not bool")
        outputs = self._types[self.prompt[source]["class_type"]].outputs
        received_type = tuple(output.type for output in outputs)[slot]
        received[port.name] = received_type
        judges_types = definition.check is not None and definition.check.judges_types
        if not judges_types and not types_match(received_type, port.type):
            verdict.add(say.type_mismatch(port, received_type, link))
            return
        try:
            upstream = yield source
        except Exception as error:  # noqa: BLE001 - reported as that node's fault
            upstream = _Verdict()
            upstream.add(say.inner_check_raised(error, full_type_name(error), port, link))
            self._verdicts[source] = upstream
        verdict.good &= upstream.good

    def _run_own_check(
        self,
        node_id: str,
        definition: NodeDefinition,
        inputs: Mapping[str, Any],
        received: Mapping[str, str | None],
        verdict: _Verdict,
    ) -> None:
        if definition.check is None:
            return
        literals = {name: value for name, value in inputs.items() if not isinstance(value, list)}
        links = {
            name: received.get(name) for name, value in inputs.items() if isinstance(value, list)
        }
        given = NodeInputs(node_id, literals, links, self._folders)
        try:
            found = definition.check.find_faults(given)
            if inspect.isawaitable(found):
                found = asyncio.run(cast("Coroutine[Any, Any, Sequence[InputFault]]", found))
        except SystemExit as error:
            raise NodeExited(error) from error
        for fault in found:
            verdict.add(say.failed_check(fault.input, fault.reason))


def _fit_literal(
    definition: NodeDefinition, port: InputPort, inputs: dict[str, Any], verdict: _Verdict
) -> None:
    inputs[port.name] = unwrap(inputs[port.name])
    fitted = fit_value(port, inputs[port.name])
    if not isinstance(fitted, ValueFault):
        inputs[port.name] = fitted
        return
    judged_by_node = definition.check is not None and definition.check.judges(port.name)
    if fitted.kind == "invalid_input_type" or not judged_by_node:
        verdict.add(say.unfit_value(port, fitted))
    else:
        inputs[port.name] = fitted.value


def _cycle_in(path: Sequence[str], closing: str) -> list[str]:
    """The part of a path from consumer to source that comes back, as the values would flow."""
    return list(reversed(path[path.index(closing) :]))
