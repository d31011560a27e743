"""The graph model of a workflow and how ComfyUI's API format is read into it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from comfyrail.errors import MalformedWorkflow
from comfyrail.workflow.order import topological_order

EDITOR_FORMAT_ADVICE = (
    "This is the editor's own format. Convert it with 'comfyrail convert', or use 'Export (API)' "
    "in ComfyUI's editor."
)


LARGE_PROMPT = 2000
"""Nodes or inputs."""

Area = tuple[int, int, int, int]
"""Where a node stands in the editor: x, y, width, height."""


@dataclass(frozen=True, slots=True)
class Transform:
    """A node set on an edge: the value passes through it on the way to the input."""

    class_type: str
    input: str
    inputs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Edge:
    """Output `slot` of node `source` feeds `input` of node `target`."""

    source: str
    slot: int
    target: str
    input: str


@dataclass(frozen=True, slots=True)
class Node:
    id: str
    class_type: str
    inputs: Mapping[str, Any]
    title: str | None = None
    transforms: Mapping[str, Transform] = field(default_factory=dict)

    def edges(self) -> Iterator[Edge]:
        for name, value in self.inputs.items():
            if is_link(value):
                yield Edge(value[0], int(value[1]), self.id, name)


@dataclass(frozen=True)
class Workflow:
    """Nodes by id, in the order of the source. Immutable; every change gives a new workflow."""

    nodes: Mapping[str, Node]
    metadata: Mapping[str, Any] = field(default_factory=dict)
    layout: Mapping[str, Area] = field(default_factory=dict, compare=False)
    """Where nodes stand, by id; empty where the source does not say."""

    @cached_property
    def order(self) -> tuple[str, ...]:
        """Node ids, each after all that feed it. Raises CyclicWorkflow, naming the cycle."""
        return topological_order(self.sources)

    @cached_property
    def sources(self) -> Mapping[str, Sequence[str]]:
        """By node id, the ids of the nodes that feed it: one for each link that leads somewhere."""
        nodes = self.nodes
        return {
            node_id: [
                value[0]
                for value in node.inputs.values()
                if type(value) is list and is_link(value) and value[0] in nodes
            ]
            for node_id, node in nodes.items()
        }

    def with_inputs(self, changes: Mapping[str, Mapping[str, Any]]) -> "Workflow":
        """The workflow with some inputs set: `changes` maps node ids to inputs and values."""
        nodes = dict(self.nodes)
        for node_id, inputs in changes.items():
            node = nodes[node_id]
            nodes[node_id] = replace(node, inputs={**node.inputs, **inputs})
        return replace(self, nodes=nodes)

    def expanded(self) -> "Workflow":
        """The same graph with every transform of an edge as a node of its own."""
        if not any(node.transforms for node in self.nodes.values()):
            return self
        nodes: dict[str, Node] = {}
        for node in self.nodes.values():
            inputs = dict(node.inputs)
            for name, transform in node.transforms.items():
                inserted = transform_node_id(node.id, name)
                nodes[inserted] = Node(
                    inserted,
                    transform.class_type,
                    {**transform.inputs, transform.input: inputs[name]},
                )
                inputs[name] = [inserted, 0]
            nodes[node.id] = replace(node, inputs=inputs, transforms={})
        return replace(self, nodes=nodes)

    def to_prompt(self) -> dict[str, Any]:
        """ComfyUI's API format."""
        prompt: dict[str, Any] = {}
        for node in self.expanded().nodes.values():
            prompt[node.id] = {"class_type": node.class_type, "inputs": dict(node.inputs)}
            if node.title is not None:
                prompt[node.id]["_meta"] = {"title": node.title}
        return prompt


def is_link(value: object) -> bool:
    """Whether an input's value is a link `[node id, slot]`."""
    if not (isinstance(value, list) and len(value) == 2 and isinstance(value[0], str)):
        return False
    slot = value[1]
    if isinstance(slot, float):
        return slot.is_integer()  # neither NaN nor infinite ones are
    return isinstance(slot, int) and not isinstance(slot, bool)


def is_large_prompt(prompt: Mapping[str, Any]) -> bool:
    """Whether a look at every input takes longer than a server can pause for."""
    if len(prompt) > LARGE_PROMPT:
        return True
    inputs = (node.get("inputs") for node in prompt.values() if isinstance(node, Mapping))
    return sum(len(each) for each in inputs if isinstance(each, Mapping)) > LARGE_PROMPT


def transform_node_id(node_id: str, input_name: str) -> str:
    return f"{node_id}:{input_name}"


def parse_workflow(raw: object) -> Workflow:
    """Read ComfyUI's API format, bare or in an envelope `{"nodes": {...}}`.

    Raises MalformedWorkflow with a finding for every node that is not in the right form. Links are
    read as they are: whether they lead anywhere is a question for validation.
    """
    if not isinstance(raw, Mapping):
        raise MalformedWorkflow(
            f"A workflow is a JSON object of nodes, not {_kind(raw)}.", details={"path": ""}
        )
    entries, metadata = _open_envelope(raw)
    findings: list[dict[str, Any]] = []
    nodes: dict[str, Node] = {}
    for node_id, entry in entries.items():
        if _is_plain(entry):
            nodes[node_id] = _read_node(node_id, entry)
            continue
        faults = list(_faults_of_entry(str(node_id), entry))
        findings.extend(faults)
        if not faults:
            nodes[node_id] = _read_node(node_id, entry)
    for node in nodes.values():
        if node.transforms:
            findings.extend(_faults_of_transforms(node, nodes))
    if findings:
        first = findings[0]["message"]
        more = f" And {len(findings) - 1} more: see the findings." if len(findings) > 1 else ""
        raise MalformedWorkflow(first + more, findings=findings)
    return Workflow(nodes, metadata)


def _open_envelope(raw: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The nodes, and what stands beside them in an envelope `{"nodes": {...}}`."""
    inner = raw.get("nodes")
    if isinstance(inner, list):
        raise MalformedWorkflow(EDITOR_FORMAT_ADVICE, details={"path": "nodes"})
    entries, metadata = raw, {}
    if isinstance(inner, Mapping) and "class_type" not in inner:
        entries = inner
        metadata = {key: value for key, value in raw.items() if key != "nodes"}
    if not entries:
        raise MalformedWorkflow("The workflow has no nodes.", details={"path": ""})
    return entries, metadata


def _is_plain(entry: object) -> bool:
    """Whether a node is as nearly all are: right, and without anything that needs a closer look."""
    if type(entry) is not dict:
        return False
    meta = entry.get("_meta")
    return (
        type(entry.get("class_type")) is str
        and entry["class_type"] != ""
        and type(entry.get("inputs")) is dict
        and (meta is None or (type(meta) is dict and "transforms" not in meta))
    )


def _read_node(node_id: str, entry: Mapping[str, Any]) -> Node:
    meta = entry.get("_meta") or {}
    title = meta.get("title")
    return Node(
        id=node_id,
        class_type=entry["class_type"],
        inputs=dict(entry.get("inputs") or {}),
        title=title if isinstance(title, str) else None,
        transforms={
            name: Transform(each["class_type"], each["input"], each.get("inputs") or {})
            for name, each in (meta.get("transforms") or {}).items()
        },
    )


def _faults_of_entry(node_id: str, entry: object) -> Iterator[dict[str, Any]]:
    if not isinstance(entry, Mapping):
        yield _fault(node_id, node_id, f"Node '{node_id}' is {_kind(entry)}, not an object.")
        return
    class_type = entry.get("class_type")
    if not isinstance(class_type, str) or not class_type:
        yield _fault(
            node_id,
            f"{node_id}.class_type",
            f"Node '{node_id}' has no class_type. Give it the name of a node type.",
        )
    if not isinstance(entry.get("inputs", {}), Mapping | None):
        yield _fault(
            node_id, f"{node_id}.inputs", f"The inputs of node '{node_id}' are not an object."
        )
    meta = entry.get("_meta")
    if not isinstance(meta, Mapping | None):
        yield _fault(node_id, f"{node_id}._meta", f"_meta of node '{node_id}' is not an object.")
        return
    transforms = (meta or {}).get("transforms") or {}
    if not isinstance(transforms, Mapping) or not all(
        isinstance(each, Mapping)
        and isinstance(each.get("class_type"), str)
        and isinstance(each.get("input"), str)
        and isinstance(each.get("inputs", {}), Mapping | None)
        for each in transforms.values()
    ):
        yield _fault(
            node_id,
            f"{node_id}._meta.transforms",
            f"Transforms of node '{node_id}' must be objects with class_type, input and inputs.",
        )


def _faults_of_transforms(node: Node, nodes: Mapping[str, Node]) -> Iterator[dict[str, Any]]:
    for name in node.transforms:
        path = f"{node.id}._meta.transforms.{name}"
        if not is_link(node.inputs.get(name)):
            yield _fault(
                node.id, path, f"A transform needs a link: '{name}' of node '{node.id}' is none."
            )
        if transform_node_id(node.id, name) in nodes:
            taken = transform_node_id(node.id, name)
            yield _fault(node.id, path, f"The transform needs the id '{taken}': rename that node.")


def _fault(node_id: str, path: str, message: str) -> dict[str, Any]:
    return {
        "stage": "syntax",
        "severity": "error",
        "error_code": MalformedWorkflow.code,
        "message": message,
        "node_id": node_id,
        "path": path,
        "details": {},
    }


def _kind(value: object) -> str:
    names = {
        type(None): "null",
        bool: "a boolean",
        str: "a string",
        list: "a list",
        dict: "an object",
    }
    return names.get(type(value), "a number")
