"""Which inputs of a node decide how long it runs, and which only decide what comes out.

Judged by the port's type where the catalog knows it, and by names that ComfyUI and its packs use
alike. Whole numbers are taken for costly (sizes, counts, steps), texts and fractions for cheap.
"""

from dataclasses import replace
from heapq import nsmallest
from typing import Any

from comfyrail.workflow.catalog import InputPort, NodeCatalog
from comfyrail.workflow.dynamic_inputs import ports_of
from comfyrail.workflow.graph import Node, Workflow
from comfyrail.workflow.models import FOLDER_OF_INPUT, MODEL_SUFFIXES

MOST_INPUTS = 20_000
"""Of a workflow, up to which every one is looked at: 1000 nodes with 20 each."""
LEAST_OF_UNKNOWN = 8
CHEAP_NAMES = frozenset(
    (
        *("seed", "noise_seed", "text", "prompt", "negative", "negative_prompt", "string"),
        *("filename_prefix", "filename", "image", "images", "video", "audio", "latent", "mask"),
        *("file", "path", "url", "cfg", "guidance", "guidance_scale", "cfg_scale", "strength"),
        *("strength_model", "strength_clip", "start_percent", "end_percent", "eta", "s_noise"),
        *("x", "y", "color", "colour", "value_hex", "opacity", "alpha", "index", "batch_index"),
        *("shift", "max_shift", "base_shift", "scheduler", "brightness", "contrast", "angle"),
        *("quality", "fps", "frame_rate", "threshold", "ratio", "blend_factor", "noise_level"),
    )
)
COSTLY_NAMES = frozenset(
    (
        *("denoise", "image_denoise", "steps", "width", "height", "batch_size", "length"),
        *("scale_by", "upscale_by", "upscale_factor", "multiplier"),
        *("megapixels", "duration", "seconds", "duration_seconds", "sigma", "radius"),
        *("scale_ratio", "resolution", "size"),
    )
)
CHOICE_ENDINGS = ("_name", "_method", "_mode", "_type")
"""How inputs that choose one of a few are called, for types that no catalog knows."""


def is_costly(name: str, port: InputPort | None, value: Any) -> bool:
    """Whether a change of this input's literal value may change how long the node takes."""
    leaf = name.rpartition(".")[2]
    if leaf in COSTLY_NAMES:
        return True
    if leaf in CHEAP_NAMES or leaf.endswith("seed"):
        return False
    if port is None:
        return _looks_costly(leaf, value)
    if port.choices is not None:
        return not port.takes_upload
    return port.type not in {"STRING", "FLOAT"}


def without_excess(workflow: Workflow, catalog: NodeCatalog) -> Workflow:
    """The workflow with the inputs that can matter, for those who look at every one.

    That is the workflow itself, unless it has very many inputs: then each node has those that its
    type has, and of a type that nobody knows the first few by name.
    """
    nodes = workflow.nodes
    if sum(len(node.inputs) for node in nodes.values()) <= MOST_INPUTS:
        return workflow
    share = max(LEAST_OF_UNKNOWN, MOST_INPUTS // len(nodes))
    return replace(
        workflow, nodes={node.id: _without_excess(node, catalog, share) for node in nodes.values()}
    )


def halves_the_work(name: str, value: Any) -> bool:
    """Whether it is a guidance of 1: samplers then leave the negative prompt out."""
    return name == "cfg" and isinstance(value, int | float) and value == 1


def _looks_costly(leaf: str, value: Any) -> bool:
    if isinstance(value, str):
        named = leaf in FOLDER_OF_INPUT or leaf.endswith(CHOICE_ENDINGS)
        return named or value[-16:].lower().endswith(MODEL_SUFFIXES)
    return not isinstance(value, float)


def _without_excess(node: Node, catalog: NodeCatalog, share: int) -> Node:
    node_type = catalog.get(node.class_type)
    if node_type is not None:
        ports = ports_of(node_type, node.inputs)
        names = [name for name in ports if name in node.inputs]
    else:
        names = list(node.inputs) if len(node.inputs) <= share else nsmallest(share, node.inputs)
    if len(names) == len(node.inputs):
        return node
    return replace(node, inputs={name: node.inputs[name] for name in names})
