"""`input_params`: values that the caller sets into a workflow's nodes."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, islice
from typing import Any, Literal

from comfyrail.errors import InvalidWorkflow, MalformedWorkflow, UnknownParameter
from comfyrail.workflow.catalog import ANY_TYPES, COMBO, InputPort, NodeCatalog
from comfyrail.workflow.declared_inputs import DeclaredInput, declared_inputs_of
from comfyrail.workflow.declared_values import fit_declared_value
from comfyrail.workflow.dynamic_inputs import DYNAMIC_TYPES
from comfyrail.workflow.graph import Node, Workflow, is_link
from comfyrail.workflow.models import MODEL_SUFFIXES, model_folder
from comfyrail.workflow.nearest import Suggestions, did_you_mean, shown
from comfyrail.workflow.values import CONVERSIONS, ValueFault, fit_value

KEY_LIMIT = 500
MOST_LISTED = 3
MOST_TOLD = 12
WRITTEN_TYPES = {*CONVERSIONS, COMBO, *ANY_TYPES, *DYNAMIC_TYPES}
ERROR_OF_CODE: dict[str, type[InvalidWorkflow]] = {
    kind.code: kind for kind in (MalformedWorkflow, UnknownParameter)
}


def apply_parameters(
    workflow: Workflow,
    parameters: Mapping[str, Any],
    catalog: NodeCatalog | None = None,
    declared: Sequence[DeclaredInput] | None = None,
) -> Workflow:
    """The workflow with each parameter set, and the defaults of declared inputs.

    A key is the name of a declared input, `"<node id>.<input>"` or `"<node title>.<input>"`;
    `{"<node>": {"<input>": value}}` is the same in another form. A declared name is tried before a
    node id, and an id before a title. An input that the node does not have yet is accepted when the
    catalog knows it. What is set on a node itself counts more than what a declared input brings.

    `declared` is what is declared elsewhere; without it the workflow's own declarations count.
    Raises UnknownParameter with the nearest names for a key that leads nowhere, and InvalidWorkflow
    for a value that does not fit, with all such findings.
    """
    if declared is None:
        declared = declared_inputs_of(workflow)
    if not parameters and not declared:
        return workflow
    setting = _Setting(workflow, catalog or NodeCatalog(), declared)
    names = {each.name for each in declared}
    for key, value in parameters.items():
        if key not in names:
            setting.set_key(key, value)
    for each in declared:
        setting.set_declared(each, parameters.get(each.name))
    setting.refuse_findings()
    return workflow.with_inputs(setting.changes)


def check_targets(
    workflow: Workflow, declared: Sequence[DeclaredInput], catalog: NodeCatalog
) -> None:
    """Raise MalformedWorkflow unless every declared input leads to a value that it can set."""
    setting = _Setting(workflow, catalog, declared)
    for each in declared:
        setting.check_declared(each)
    setting.refuse_findings()


class _Setting:
    """What is to be set in one workflow, and what is wrong with it."""

    def __init__(
        self, workflow: Workflow, catalog: NodeCatalog, declared: Sequence[DeclaredInput]
    ) -> None:
        self.changes: dict[str, dict[str, Any]] = {}
        self._workflow = workflow
        self._catalog = catalog
        self._names = [each.name for each in declared]
        self._suggestions = Suggestions()
        self._is_told = False
        # By port: thousands of declared choices may meet thousands of its own, many times.
        self._known_choices: dict[int, set[Any] | None] = {}
        self._findings: list[dict[str, Any]] = []

    def set_key(self, key: str, value: Any) -> None:
        """One key that is no declared name: an input of a node, or several of them."""
        if isinstance(value, Mapping) and (key in self._workflow.nodes or key in self._by_title):
            for input_name, inner in value.items():
                self._set_target(f"{key}.{input_name}", inner)
        else:
            self._set_target(key, value)

    def _set_target(self, key: str, value: Any) -> None:
        target = self._resolve(key)
        if isinstance(target, str):
            self._add_finding(UnknownParameter.code, f"input_params.{key}", target)
            return
        node, input_name = target
        self.changes.setdefault(node.id, {})[input_name] = value

    def set_declared(self, declared: DeclaredInput, given: Any) -> None:
        targets = self.targets_of(declared)
        value = declared.default if given is None else given
        path = f"input_params.{declared.name}"
        if value is None:
            if declared.required and not self._are_set(targets):
                message = (
                    f"The input '{declared.name}' is required: give it a value (input_params, or "
                    f"--set {declared.name}=VALUE)."
                )
                self._add_finding("MISSING_REQUIRED_INPUT", path, message)
            return
        fitted = fit_declared_value(declared, value)
        if isinstance(fitted, ValueFault):
            message = f"The input '{declared.name}' {fitted.message}"
            self._add_finding(MalformedWorkflow.code, path, message, reason=fitted.kind)
            return
        for node, input_name in targets:
            self.changes.setdefault(node.id, {}).setdefault(input_name, fitted)

    def check_declared(self, declared: DeclaredInput) -> None:
        """Judge a declaration by what the catalog knows of its targets."""
        for node, input_name in self.targets_of(declared):
            node_type = self._catalog.get(node.class_type)
            port = node_type.inputs.get(input_name) if node_type else None
            if port is None:
                continue
            where = f"'{input_name}' of node '{node.id}' ({node.class_type})"
            if not _takes_values(port) and self._is_given(node, port):
                message = f"has no value to set: {where} takes {port.type} from another node."
                self._add_declared(declared, "target", message)
            wrong = self._wrong_choices(node, port, declared.choices or ())
            if wrong:
                near = self._near_choices(port, wrong[0])
                message = f"has choices that {where} does not take: {_listed(wrong)}.{near}"
                self._add_declared(declared, "choices", message)

    def _is_given(self, node: Node, port: InputPort) -> bool:
        """Whether it comes from other nodes: some nodes have values of types of their own."""
        return is_link(node.inputs.get(port.name)) or port.type in self._given_types

    @cached_property
    def _given_types(self) -> set[str]:
        return {output.type for each in self._catalog.types.values() for output in each.outputs}

    def _wrong_choices(self, node: Node, port: InputPort, choices: Sequence[Any]) -> list[Any]:
        """Those that the node never takes. Any file or model may be there when it runs."""
        if port.choices is None:
            return [each for each in choices if isinstance(fit_value(port, each), ValueFault)]
        if id(port) not in self._known_choices:
            self._known_choices[id(port)] = _known_choices(node.class_type, port)
        known = self._known_choices[id(port)]
        if known is None:
            return []
        wrong = [each for each in choices if each not in known]
        return [each for each in wrong if not str(each).lower().endswith(MODEL_SUFFIXES)]

    def _near_choices(self, port: InputPort, wrong: Any) -> str:
        texts = (each for each in port.choices or () if isinstance(each, str))
        return did_you_mean(self._suggestions.near(wrong, texts)) if isinstance(wrong, str) else ""

    def targets_of(self, declared: DeclaredInput) -> list[tuple[Node, str]]:
        """Where a declared input leads; what leads nowhere becomes a finding."""
        found = []
        for target in declared.targets:
            place = self._resolve(target, "target")
            if isinstance(place, str):
                place = self._only_value(target) or place
            if isinstance(place, str):
                place = self._which_value(target) or place
                self._add_declared(declared, "target", f"leads nowhere. {place}")
            else:
                found.append(place)
        return found

    def refuse_findings(self) -> None:
        if not self._findings:
            return
        code = self._findings[0]["error_code"]
        message = " ".join(finding["message"] for finding in self._findings[:3])
        kind = ERROR_OF_CODE.get(code, InvalidWorkflow)
        raise kind(message, code=code, findings=self._findings)

    @cached_property
    def _by_title(self) -> dict[str, list[Node]]:
        found: dict[str, list[Node]] = {}
        for node in self._workflow.nodes.values():
            if node.title is not None:
                found.setdefault(node.title, []).append(node)
        return found

    def _are_set(self, targets: Sequence[tuple[Node, str]]) -> bool:
        return bool(targets) and all(
            input_name in self.changes.get(node.id, {}) for node, input_name in targets
        )

    def _which_value(self, target: str) -> str | None:
        """What to say of a node alone that has several values."""
        node = self._workflow.nodes.get(target) or next(iter(self._by_title.get(target, [])), None)
        if node is None:
            return None
        values = [name for name, value in node.inputs.items() if not is_link(value)]
        named = ", ".join(f"'{target}.{name}'" for name in values[:5])
        return f"Node '{node.id}' has {len(values)} values: say which one, such as {named}."

    def _only_value(self, target: str) -> tuple[Node, str] | None:
        """For a node by id or title alone: its one input that is a value and no link."""
        node = self._workflow.nodes.get(target)
        nodes = [node] if node else self._by_title.get(target, [])
        if len(nodes) != 1:
            return None
        values = [name for name, value in nodes[0].inputs.items() if not is_link(value)]
        return (nodes[0], values[0]) if len(values) == 1 else None

    def _resolve(
        self, key: str, kind: Literal["parameter", "target"] = "parameter"
    ) -> tuple[Node, str] | str:
        """The node and input that a key means, or a message that says why it means none."""
        workflow, catalog = self._workflow, self._catalog
        if len(key) > KEY_LIMIT:
            return f"The {kind} {shown(key)} is longer than {KEY_LIMIT} characters."
        splits = [(key[:at], key[at + 1 :]) for at, char in enumerate(key) if char == "."]
        matches = [
            (workflow.nodes[left], right) for left, right in splits if left in workflow.nodes
        ]
        if not matches:
            titled = [(self._by_title.get(left, []), left, right) for left, right in splits]
            for nodes, title, _ in titled:
                if len(nodes) > 1:
                    ids = ", ".join(node.id for node in nodes)
                    return f"The title '{title}' belongs to nodes {ids}: use a node id instead."
            matches = [(nodes[0], right) for nodes, _, right in titled if nodes]
        for node, input_name in matches:
            if input_name in _inputs_of(node, catalog) or _is_part(node, input_name, catalog):
                return node, input_name
        if matches:
            node, input_name = matches[0]
            near = did_you_mean(self._suggestions.near(input_name, _inputs_of(node, catalog)))
            return f"Node '{node.id}' ({node.class_type}) has no input '{input_name}'.{near}"
        # A target is no declared name, and may be a node alone.
        beside = self._names if kind == "parameter" else self._by_title
        known = chain(beside, _all_targets(workflow, catalog))
        meant = self._suggestions.near(key, known) or self._inputs_near(key)
        said = did_you_mean(meant) or (self._what_there_is() if kind == "parameter" else "")
        return f"No node is meant by the {kind} '{key}'.{said}"

    def _what_there_is(self) -> str:
        """A sentence of what can be set, told once: the caller may err a thousand times."""
        if self._is_told:
            return ""
        self._is_told = True
        values = (
            f"{node.title or node.id}.{name}"
            for node in self._workflow.nodes.values()
            for name, value in node.inputs.items()
            if not is_link(value)
        )
        found = [shown(name) for name in islice(chain(self._names, values), MOST_TOLD + 1)]
        named = ", ".join(found[:MOST_TOLD]) + (" and more" if len(found) > MOST_TOLD else "")
        return f" There are {named}." if found else " The workflow has nothing to set."

    def _inputs_near(self, key: str) -> list[str]:
        """Inputs of the node that is named most like the key's, where the rest is unlike any."""
        named, _, wanted = key.rpartition(".")
        for near in self._suggestions.near(named, self._by_any_name):
            node, written = self._by_any_name[near]
            values = [name for name, value in node.inputs.items() if not is_link(value)]
            meant = [wanted] if wanted in values else values[:MOST_LISTED]
            return [f"{written}.{each}" for each in meant]
        return []

    @cached_property
    def _by_any_name(self) -> dict[str, tuple[Node, str]]:
        """What people call a node, and what a key calls it: its title, or its id for its type."""
        found: dict[str, tuple[Node, str]] = {}
        for node in self._workflow.nodes.values():
            if node.title is not None:
                found[node.title] = (node, node.title)
        for node in self._workflow.nodes.values():
            node_type = self._catalog.get(node.class_type)
            for name in (node.class_type, node_type.display_name if node_type else None):
                found.setdefault(name or node.class_type, (node, node.id))
        return found

    def _add_declared(self, declared: DeclaredInput, field: str, message: str) -> None:
        path = f"inputs.{declared.name}.{field}"
        message = f"The declared input '{declared.name}' {message}"
        self._add_finding(MalformedWorkflow.code, path, message)

    def _add_finding(self, code: str, path: str, message: str, **details: str) -> None:
        self._findings.append(
            {
                "stage": "syntax",
                "severity": "error",
                "error_code": code,
                "message": message,
                "node_id": None,
                "path": path,
                "details": details,
            }
        )


def _inputs_of(node: Node, catalog: NodeCatalog) -> list[str]:
    node_type = catalog.get(node.class_type)
    return list(dict.fromkeys([*node.inputs, *(node_type.inputs if node_type else ())]))


def _is_part(node: Node, name: str, catalog: NodeCatalog) -> bool:
    """Whether it may be a part of a dynamic input, such as `images.image0`.

    Which parts there are depends on values that may be set in the same breath: validation judges.
    """
    node_type = catalog.get(node.class_type)
    port = node_type.inputs.get(name.partition(".")[0]) if node_type and "." in name else None
    return port is not None and port.type in DYNAMIC_TYPES


def _takes_values(port: InputPort) -> bool:
    """Whether a value can be written there: a number, a text, a choice, or anything."""
    parts = {part.strip() for part in port.type.split(",")}
    return port.choices is not None or not parts.isdisjoint(WRITTEN_TYPES)


def _known_choices(class_type: str, port: InputPort) -> set[Any] | None:
    """All that a port takes; None where they are files or models, of which others may come."""
    choices = port.choices or ()
    is_open = port.takes_upload or not choices or model_folder(class_type, port, None) is not None
    plain = {each for each in choices if isinstance(each, str | int | float)}
    return None if is_open else plain


def _listed(values: Sequence[Any]) -> str:
    more = f" and {len(values) - MOST_LISTED} more" if len(values) > MOST_LISTED else ""
    return ", ".join(map(shown, values[:MOST_LISTED])) + more


def _all_targets(workflow: Workflow, catalog: NodeCatalog) -> Iterator[str]:
    for node in workflow.nodes.values():
        for name in _inputs_of(node, catalog):
            yield f"{node.id}.{name}"
            if node.title:
                yield f"{node.title}.{name}"
