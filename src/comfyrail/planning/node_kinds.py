"""Kinds of nodes, and what each costs while nothing better is known."""

import re
from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from comfyrail.workflow.catalog import NodeType
from comfyrail.workflow.signature import SCALAR_TYPES

PICTURE_TYPES = frozenset(("IMAGE", "MASK", "LATENT", "VIDEO"))
"""Values that have a size in pixels."""
MODEL_TYPES = frozenset(
    (
        *("MODEL", "CLIP", "VAE", "CONTROL_NET", "UPSCALE_MODEL", "CLIP_VISION", "STYLE_MODEL"),
        *("GLIGEN", "PHOTOMAKER", "AUDIO_ENCODER", "MODEL_PATCH", "LATENT_UPSCALE_MODEL"),
    )
)
REMOTE_CATEGORY = "api node"


class NodeKind(StrEnum):
    SAMPLER = "sampler"
    REMOTE = "remote"
    """It asks a service of another company and waits."""
    LOADER = "loader"
    ENHANCE = "enhance"
    """A model works on a picture: upscaling, segmentation."""
    VAE = "vae"
    TEXT = "text"
    OUTPUT = "output"
    IMAGE = "image"
    OTHER = "other"
    PRIMITIVE = "primitive"


class NodeCost(NamedTuple):
    """Seconds of a node: `base + per_step x steps + per_unit x units`, and `cold` more when its
    models had to be loaded for this run.
    """

    base: float
    per_step: float
    per_unit: float
    cold: float


DEFAULT_COSTS: Mapping[NodeKind, NodeCost] = {
    NodeKind.SAMPLER: NodeCost(0.1, 0.01, 0.12, 1.0),
    NodeKind.REMOTE: NodeCost(20.0, 0.0, 0.0, 0.0),
    NodeKind.LOADER: NodeCost(0.2, 0.0, 0.5, 0.0),
    NodeKind.ENHANCE: NodeCost(0.2, 0.0, 0.5, 0.3),
    NodeKind.VAE: NodeCost(0.05, 0.0, 0.15, 0.1),
    NodeKind.TEXT: NodeCost(0.05, 0.0, 0.0, 0.3),
    NodeKind.OUTPUT: NodeCost(0.01, 0.0, 0.12, 0.0),
    NodeKind.IMAGE: NodeCost(0.003, 0.0, 0.02, 0.0),
    NodeKind.OTHER: NodeCost(0.02, 0.0, 0.02, 0.1),
    NodeKind.PRIMITIVE: NodeCost(0.0005, 0.0, 0.0, 0.0),
}
"""Of the order that an RTX 4090 shows with SD 1.5 and SDXL: a prior, soon outvoted by history."""

_BY_NAME: tuple[tuple[NodeKind, re.Pattern[str]], ...] = (
    (NodeKind.SAMPLER, re.compile(r"KSampler(?!Select)|^SamplerCustom|Sampler$")),
    (NodeKind.VAE, re.compile(r"VAE(En|De)code")),
    (NodeKind.TEXT, re.compile(r"TextEncode")),
    (NodeKind.ENHANCE, re.compile(r"UpscaleWithModel|UpscaleImageUsingModel")),
    (NodeKind.PRIMITIVE, re.compile(r"^(Primitive|KSamplerSelect|Reroute)")),
)
_BY_NAME_ALONE: tuple[tuple[NodeKind, re.Pattern[str]], ...] = (
    (NodeKind.OUTPUT, re.compile(r"^(Save|Preview)")),
    (NodeKind.LOADER, re.compile(r"Loader")),
    (NodeKind.IMAGE, re.compile(r"Image|Mask|Latent|Video")),
)


def kind_of(class_type: str, node_type: NodeType | None) -> NodeKind:
    """By the name where it is one that all know, else by what the type takes and gives."""
    if node_type is None:
        return _kind_by_name_alone(class_type)
    return _kind_by_name(class_type) or _kind_by_ports(node_type)


@lru_cache(4096)
def _kind_by_name(class_type: str) -> NodeKind | None:
    return next((kind for kind, names in _BY_NAME if names.search(class_type[:200])), None)


@lru_cache(4096)
def _kind_by_name_alone(class_type: str) -> NodeKind:
    known = _kind_by_name(class_type)
    guesses = (kind for kind, names in _BY_NAME_ALONE if names.search(class_type[:200]))
    return known or next(guesses, NodeKind.OTHER)


def _kind_by_ports(node_type: NodeType) -> NodeKind:
    outputs = {port.type for port in node_type.outputs}
    inputs = {port.type for port in node_type.inputs.values()}
    takes_model = bool(inputs & MODEL_TYPES)
    by_rank = (
        (NodeKind.REMOTE, node_type.category.startswith(REMOTE_CATEGORY)),
        (NodeKind.SAMPLER, "LATENT" in outputs and bool(inputs & {"SIGMAS", "GUIDER"})),
        (NodeKind.LOADER, bool(outputs & MODEL_TYPES) and not takes_model),
        (NodeKind.OTHER, bool(outputs & MODEL_TYPES)),
        (NodeKind.OUTPUT, node_type.is_output),
        (NodeKind.TEXT, "CONDITIONING" in outputs and "CLIP" in inputs),
        (NodeKind.ENHANCE, bool(outputs & PICTURE_TYPES) and takes_model),
        (NodeKind.IMAGE, bool((outputs | inputs) & PICTURE_TYPES)),
        (NodeKind.PRIMITIVE, outputs <= SCALAR_TYPES),
    )
    return next((kind for kind, fits in by_rank if fits), NodeKind.OTHER)
