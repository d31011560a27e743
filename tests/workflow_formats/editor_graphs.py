"""Graphs in the editor's format, written by hand, and a small catalog for them."""

from collections.abc import Mapping
from typing import Any

from comfyrail.workflow.catalog import NodeCatalog, parse_object_info
from comfyrail.workflow.editor.notes import ConversionNote
from comfyrail.workflow.editor.workflow_from import workflow_from

SUBGRAPH_INPUTS = -10
SUBGRAPH_OUTPUTS = -20

CATALOG = parse_object_info(
    {
        "Load": {"input": {}, "output": ["IMAGE", "MASK"]},
        "Invert": {
            "input": {"required": {"image": ["IMAGE"], "amount": ["FLOAT", {"default": 1.0}]}},
            "output": ["IMAGE"],
            "display_name": "Invert it",
        },
        "Sample": {
            "input": {
                "required": {
                    "image": ["IMAGE"],
                    "seed": ["INT", {"control_after_generate": True}],
                    "steps": ["INT", {"default": 20}],
                    "name": [["euler", "heun"], {}],
                },
                "optional": {"text": ["STRING", {"multiline": True, "dynamicPrompts": True}]},
            },
            "output": ["IMAGE"],
        },
        "Save": {
            "input": {"required": {"image": ["IMAGE"]}},
            "output": [],
            "output_node": True,
        },
        "SaveImage": {
            "input": {
                "required": {"images": ["IMAGE"], "filename_prefix": ["STRING", {"default": "a"}]}
            },
            "output": [],
            "output_node": True,
        },
        "Text": {"input": {"required": {"text": ["STRING", {}]}}, "output": ["STRING"]},
        "Anything": {"input": {"required": {"value": ["*"]}}, "output": ["*"]},
    }
)


class Drawing:
    """A graph or subgraph: nodes first, then links between them by the names of inputs."""

    def __init__(self) -> None:
        self.nodes: list[dict[str, Any]] = []
        self.links: list[dict[str, Any]] = []
        self.subgraphs: list[dict[str, Any]] = []
        self.extra: dict[str, Any] = {}

    def node(
        self,
        kind: str,
        *inputs: str,
        values: Any = None,
        outputs: tuple[str, ...] = ("IMAGE",),
        **fields: Any,
    ) -> int:
        """Add a node; an input is written `name:TYPE`, or `name:TYPE*` where it has a widget."""
        number: int = fields.pop("id", len(self.nodes) + 1)
        self.nodes.append(
            {
                "id": number,
                "type": kind,
                "mode": 0,
                "inputs": [_slot(each) for each in inputs],
                "outputs": [{"name": each, "type": each, "links": []} for each in outputs],
                "properties": {},
                **({} if values is None else {"widgets_values": values}),
                **fields,
            }
        )
        return number

    def link(self, origin: int, target: int, name: str, slot: int = 0) -> int:
        """Link an output to an input that the target has."""
        number = len(self.links) + 1
        node = next(each for each in self.nodes if each["id"] == target)
        place = next(at for at, each in enumerate(node["inputs"]) if each["name"] == name)
        node["inputs"][place]["link"] = number
        self._add(number, origin, slot, target, place)
        return number

    def raw(self) -> dict[str, Any]:
        """The newer schema: links are objects."""
        return {
            "version": 1,
            "nodes": self.nodes,
            "links": self.links,
            "definitions": {"subgraphs": self.subgraphs},
            "extra": self.extra,
        }

    def as_old_schema(self) -> dict[str, Any]:
        names = ("id", "origin_id", "origin_slot", "target_id", "target_slot", "type")
        links = [[link[name] for name in names] for link in self.links]
        return {**self.raw(), "version": 0.4, "links": links}

    def as_subgraph(
        self,
        key: str,
        inputs: Mapping[str, list[tuple[int, str]]],
        outputs: Mapping[str, tuple[int, int]],
    ) -> dict[str, Any]:
        """Its definition: inputs lead to inputs of nodes, outputs come from outputs of nodes."""
        taken = []
        for slot, (name, targets) in enumerate(inputs.items()):
            ids = [self.link(SUBGRAPH_INPUTS, target, at, slot=slot) for target, at in targets]
            taken.append({"name": name, "type": "*", "linkIds": ids})
        given = []
        for slot, (name, (origin, output)) in enumerate(outputs.items()):
            number = len(self.links) + 1
            self._add(number, origin, output, SUBGRAPH_OUTPUTS, slot)
            given.append({"name": name, "type": "IMAGE", "linkIds": [number]})
        parts = {"id": key, "name": key, "inputs": taken, "outputs": given}
        return {**self.raw(), **parts}

    def _add(self, number: int, origin: int, slot: int, target: int, place: int) -> None:
        self.links.append(
            {
                "id": number,
                "origin_id": origin,
                "origin_slot": slot,
                "target_id": target,
                "target_slot": place,
                "type": "*",
            }
        )


def _slot(written: str) -> dict[str, Any]:
    name, _, kind = written.partition(":")
    has_widget = kind.endswith("*") and len(kind) > 1
    slot = {"name": name, "type": kind[:-1] if has_widget else kind, "link": None}
    return {**slot, "widget": {"name": name}} if has_widget else slot


def convert(raw: object, catalog: NodeCatalog = CATALOG) -> dict[str, Any]:
    """The API format, of a graph that converts without a note."""
    prompt, notes = convert_with_notes(raw, catalog)
    assert notes == ()
    return prompt


def convert_with_notes(
    raw: object, catalog: NodeCatalog = CATALOG
) -> tuple[dict[str, Any], tuple[ConversionNote, ...]]:
    workflow, notes = workflow_from(raw, catalog)
    return workflow.to_prompt(), notes


def inputs_of(raw: object, node_id: str, catalog: NodeCatalog = CATALOG) -> dict[str, Any]:
    inputs: dict[str, Any] = convert(raw, catalog)[node_id]["inputs"]
    return inputs
