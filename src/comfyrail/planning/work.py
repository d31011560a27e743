"""How much work each node of a workflow is, with sizes followed through the graph."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from comfyrail.errors import CyclicWorkflow
from comfyrail.planning.extents import Extent, extent_after, make_extent, number_of, upscaled
from comfyrail.planning.model_sizes import GIGABYTE, size_of_model
from comfyrail.planning.node_kinds import PICTURE_TYPES, NodeKind, kind_of
from comfyrail.planning.node_work import (
    NodeWork,
    TypeProfile,
    model_calls,
    model_references,
    profile_of,
    settings_of,
)
from comfyrail.workflow.catalog import ANY_TYPES, NodeCatalog
from comfyrail.workflow.graph import Node, Workflow, is_link
from comfyrail.workflow.input_costs import without_excess
from comfyrail.workflow.models import ModelReference
from comfyrail.workflow.values import unwrap

UNKNOWN_EXTENT = make_extent(1024, 1024, 1)
MOST_UNITS = 1e9
MODEL_INPUTS = ("model", "guider", "unet", "vae", "clip", "upscale_model", "clip_vision")
"""Inputs by which a node gets the model that it runs, the one that counts first."""
SIZED_TYPES = PICTURE_TYPES | ANY_TYPES
_SIZED_KINDS = frozenset((NodeKind.VAE, NodeKind.IMAGE, NodeKind.ENHANCE, NodeKind.OUTPUT))


@dataclass
class Survey:
    """One walk over a workflow, each node after what feeds it."""

    workflow: Workflow
    catalog: NodeCatalog
    model_sizes: Mapping[str, int]
    works: dict[str, NodeWork] = field(default_factory=dict)
    references: list[ModelReference] = field(default_factory=list)
    """The models that nodes name, in the order of their use."""
    levels: dict[str, int] = field(default_factory=dict)
    """How many nodes must run one after the other before each."""
    _extents: dict[str, Extent] = field(default_factory=dict)
    _values: dict[str, float] = field(default_factory=dict)
    _steps: dict[str, float] = field(default_factory=dict)
    _models: dict[str, str] = field(default_factory=dict)
    _profiles: dict[str, TypeProfile | None] = field(default_factory=dict)

    @classmethod
    def of(
        cls, workflow: Workflow, catalog: NodeCatalog, model_sizes: Mapping[str, int]
    ) -> "Survey":
        survey = cls(without_excess(workflow.expanded(), catalog), catalog, model_sizes)
        nodes = survey.workflow.nodes
        profiles = catalog.prepared(profile_of)
        survey._profiles = {node.id: profiles[node.class_type] for node in nodes.values()}
        try:
            order = survey.workflow.order
        except CyclicWorkflow:
            order = tuple(nodes)  # what a cycle feeds is not known: as if nothing did
        running = survey._needed_by_outputs(order)
        for node_id in order:
            survey._visit(nodes[node_id], runs=node_id in running)
        return survey

    def _needed_by_outputs(self, order: tuple[str, ...]) -> frozenset[str]:
        """The nodes that run: an output needs them. All, where no type is known for an output."""
        needed = {
            node_id
            for node_id, profile in self._profiles.items()
            if profile is not None and profile.node_type.is_output
        }
        if not needed:
            return frozenset(order)
        # A type that nobody knows may be an output.
        needed.update(node_id for node_id, found in self._profiles.items() if found is None)
        for node_id in reversed(order):
            if node_id in needed:
                needed.update(
                    value[0]
                    for value in self.workflow.nodes[node_id].inputs.values()
                    if isinstance(value, list) and is_link(value)
                )
        return frozenset(needed)

    def _visit(self, node: Node, *, runs: bool) -> None:
        profile = self._profiles[node.id]
        kind = kind_of(node.class_type, None) if profile is None else profile.kind
        incoming: list[Extent] = []
        numbers: dict[str, float] = {}
        level = 0
        for name, given in node.inputs.items():
            if isinstance(given, list) and is_link(given):
                source = given[0]
                level = max(level, self.levels.get(source, -1) + 1)
                self._follow(source, given[1], name, incoming, numbers)
                continue
            number = number_of(unwrap(given))
            if number is not None:
                numbers[name.rpartition(".")[2]] = number
        self.levels[node.id] = level
        references: tuple[ModelReference, ...] = ()
        if profile is None or profile.names_models:
            references = tuple(model_references(node, profile))
            self.references.extend(references if runs else ())
        self._note_scalars(node, kind, numbers)
        model = self._model_of(node, references)
        before = max(incoming, default=None, key=lambda each: each.megapixels)
        after = extent_after(node.class_type, incoming, numbers)
        if kind is NodeKind.ENHANCE and model is not None and before is not None:
            after = upscaled(before, model)
        if after is not None:
            self._extents[node.id] = after
        self.works[node.id] = self._work(
            node, kind, numbers, references, model, _larger(before, after), runs=runs
        )

    def _follow(
        self,
        source: str,
        slot: float,
        name: str,
        incoming: list[Extent],
        numbers: dict[str, float],
    ) -> None:
        """Take what a link brings: the size of a picture, or a number."""
        leaf = name.rpartition(".")[2]
        if source in self._values:
            numbers[leaf] = self._values[source]
        elif leaf == "sigmas" and source in self._steps:
            numbers["steps"] = self._steps[source]
        extent = self._extents.get(source)
        if extent is None:
            return
        slots = self._slots_of(source)
        index = int(slot)
        if not 0 <= index < len(slots) or slots[index] in SIZED_TYPES:
            incoming.append(extent)
        elif slots[index] == "INT" and len(slots) > 1:
            numbers[leaf] = float(extent[min(index, 2)])  # as GetImageSize gives it

    def _slots_of(self, node_id: str) -> tuple[str, ...]:
        profile = self._profiles.get(node_id)
        return () if profile is None else profile.slots

    def _note_scalars(self, node: Node, kind: NodeKind, numbers: Mapping[str, float]) -> None:
        if kind is NodeKind.PRIMITIVE and len(numbers) == 1:
            self._values[node.id] = next(iter(numbers.values()))
        if "steps" in numbers and kind is not NodeKind.SAMPLER:
            self._steps[node.id] = numbers["steps"]

    def _model_of(self, node: Node, references: tuple[ModelReference, ...]) -> str | None:
        """The model that reaches a node: a LoRA's user still runs the checkpoint under it."""
        model = references[0].name if references else None
        for name in MODEL_INPUTS if self._models else ():
            value = node.inputs.get(name)
            source = value[0] if isinstance(value, list) and is_link(value) else None
            if source in self._models:
                model = self._models[source]
                break
        if model is not None:
            self._models[node.id] = model
        return model

    def _work(
        self,
        node: Node,
        kind: NodeKind,
        numbers: Mapping[str, float],
        references: tuple[ModelReference, ...],
        model: str | None,
        extent: Extent | None,
        *,
        runs: bool,
    ) -> NodeWork:
        steps = 0.0
        megapixels = 0.0 if extent is None else extent.megapixels
        units = megapixels
        if kind is NodeKind.SAMPLER:
            megapixels = megapixels or UNKNOWN_EXTENT.megapixels
            steps = model_calls(node, numbers)
            units = steps * megapixels
        elif references:
            units = sum(self._bytes_of(each) for each in references) / GIGABYTE
        elif kind in _SIZED_KINDS and extent is None:
            units = megapixels = UNKNOWN_EXTENT.megapixels
        settings = settings_of(node, self._profiles[node.id]) if model is None else None
        return NodeWork(
            node.class_type, kind, min(units, MOST_UNITS), steps, model, megapixels, runs, settings
        )

    def _bytes_of(self, reference: ModelReference) -> int:
        return size_of_model(reference.folder, reference.name, self.model_sizes)[0]


def _larger(one: Extent | None, other: Extent | None) -> Extent | None:
    if one is None or other is None:
        return one or other
    return one if one.megapixels >= other.megapixels else other
