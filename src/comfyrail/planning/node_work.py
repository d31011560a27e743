"""What one node has to do, and what its type tells about that."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from comfyrail.planning.node_kinds import NodeKind, kind_of
from comfyrail.workflow.catalog import InputPort, NodeType
from comfyrail.workflow.dynamic_inputs import DYNAMIC_TYPES, ports_of
from comfyrail.workflow.graph import Node
from comfyrail.workflow.input_costs import halves_the_work, is_costly
from comfyrail.workflow.models import (
    FOLDER_OF_INPUT,
    MODEL_SUFFIXES,
    UNKNOWN_FOLDER,
    ModelReference,
    model_folder,
    models_of_node,
)
from comfyrail.workflow.signature import value_text
from comfyrail.workflow.values import unwrap

DEFAULT_STEPS = 20.0
LONGEST_SETTINGS = 200
SIZE_NAMES = frozenset(
    (
        *("width", "height", "batch_size", "length", "amount", "scale_by", "megapixels"),
        *("left", "top", "right", "bottom", "value"),
    )
)
"""Inputs that are in the units already, or are a number for another node."""
MOST_STEPS = 10_000.0
CALLS_A_STEP: Mapping[str, float] = {
    "heun": 2.0,
    "heunpp2": 2.5,
    "dpm_2": 2.0,
    "dpm_2_ancestral": 2.0,
    "dpmpp_2s_ancestral": 2.0,
    "dpmpp_2s_ancestral_cfg_pp": 2.0,
    "dpmpp_sde": 2.0,
    "dpmpp_sde_gpu": 2.0,
    "exp_heun_2_x0": 2.0,
    "exp_heun_2_x0_sde": 2.0,
    "seeds_2": 2.0,
    "seeds_3": 3.0,
}
"""Samplers that ask the model more than once a step."""
MOST_CALLS = MOST_STEPS * max(CALLS_A_STEP.values())


@dataclass(frozen=True, slots=True)
class NodeWork:
    """What a node has to do. `units` are, by its kind, megapixels times steps (samplers),
    gigabytes (loaders) or megapixels; 0 where its cost does not depend on anything known.
    """

    class_type: str
    kind: NodeKind
    units: float = 0.0
    steps: float = 0.0
    """Calls of the model; 0 for all but samplers."""
    model: str | None = None
    """The file name of the model that it runs or loads."""
    megapixels: float = 0.0
    """The larger of what it takes and gives."""
    runs: bool = True
    """False when no output needs it."""
    settings: str | None = None
    """Its other costly values, of a node without a model: a radius, a method."""


class TypeProfile(NamedTuple):
    """What there is to know of a node type, worked out once."""

    node_type: NodeType
    kind: NodeKind
    names_models: bool
    slots: tuple[str, ...]
    """Types of the outputs."""


def profile_of(node_type: NodeType) -> TypeProfile:
    return TypeProfile(
        node_type,
        kind_of(node_type.name, node_type),
        any(_may_name_a_model(node_type.name, port) for port in node_type.inputs.values()),
        tuple(port.type for port in node_type.outputs),
    )


def model_references(node: Node, profile: TypeProfile | None) -> Iterator[ModelReference]:
    """The models that a node names; of a type that nobody knows, what looks like a model's file."""
    if profile is not None:
        yield from models_of_node(node, ports_of(profile.node_type, node.inputs))
        return
    for name, given in node.inputs.items():
        value: Any = unwrap(given)
        if isinstance(value, str) and value[-16:].lower().endswith(MODEL_SUFFIXES):
            yield ModelReference(node.id, name, FOLDER_OF_INPUT.get(name, UNKNOWN_FOLDER), value)


def settings_of(node: Node, profile: TypeProfile | None) -> str | None:
    """The costly values of a node that say nothing about sizes, as a text."""
    if profile is None:
        return None
    found = []
    for name, given in node.inputs.items():
        if isinstance(given, list) or name in SIZE_NAMES:
            continue
        value = unwrap(given)
        port = profile.node_type.inputs.get(name)
        if port is not None and is_costly(name, port, value):
            found.append(f"{name}={value_text(value)}")
    return " ".join(sorted(found))[:LONGEST_SETTINGS] or None


def model_calls(node: Node, numbers: Mapping[str, float]) -> float:
    """How often a sampler asks its model. A denoise below 1 takes none of the steps away: ComfyUI
    makes a longer schedule and runs its last `steps`.
    """
    if numbers.get("denoise", 1.0) <= 0:
        return 0.0
    steps = numbers.get("steps", DEFAULT_STEPS)
    end = min(steps, numbers.get("end_at_step", steps))
    steps = min(max(end - max(0.0, numbers.get("start_at_step", 0.0)), 0.0), MOST_STEPS)
    sampler = unwrap(node.inputs.get("sampler_name"))
    steps *= CALLS_A_STEP.get(sampler, 1.0) if isinstance(sampler, str) else 1.0
    return steps * (0.5 if halves_the_work("cfg", numbers.get("cfg")) else 1.0)


def _may_name_a_model(class_type: str, port: InputPort) -> bool:
    """Also of an input without choices yet, and of one that others bring along."""
    if port.type in DYNAMIC_TYPES or (port.choices is not None and not port.choices):
        return True
    return model_folder(class_type, port, None) is not None
