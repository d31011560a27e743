"""Which models a workflow names: checkpoints, text encoders, LoRAs and the like."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from comfyrail.workflow.catalog import InputPort, NodeCatalog
from comfyrail.workflow.dynamic_inputs import ports_of
from comfyrail.workflow.graph import Node, Workflow
from comfyrail.workflow.values import unwrap

MODEL_SUFFIXES = (
    ".safetensors",
    ".sft",
    ".ckpt",
    ".pt",
    ".pt2",
    ".pth",
    ".bin",
    ".pkl",
    ".gguf",
    ".onnx",
)
UNKNOWN_FOLDER = "models"

FOLDER_OF_INPUT: Mapping[str, str] = {
    "ckpt_name": "checkpoints",
    "lora_name": "loras",
    "vae_name": "vae",
    "unet_name": "diffusion_models",
    "clip_name": "text_encoders",
    "clip_name1": "text_encoders",
    "clip_name2": "text_encoders",
    "clip_name3": "text_encoders",
    "clip_name4": "text_encoders",
    "control_net_name": "controlnet",
    "style_model_name": "style_models",
    "gligen_name": "gligen",
    "hypernetwork_name": "hypernetworks",
    "photomaker_model_name": "photomaker",
    "audio_encoder_name": "audio_encoders",
}
"""The folder of models that an input chooses from, where its name tells."""

FOLDER_OF_CLASS: Mapping[tuple[str, str], str] = {
    ("CLIPVisionLoader", "clip_name"): "clip_vision",
    ("UpscaleModelLoader", "model_name"): "upscale_models",
    ("LatentUpscaleModelLoader", "model_name"): "latent_upscale_models",
    ("ModelPatchLoader", "name"): "model_patches",
    ("DiffusersLoader", "model_path"): "diffusers",
}
"""The same where the name means different things in different node types."""


@dataclass(frozen=True, slots=True)
class ModelReference:
    """A model that an input of a node names."""

    node_id: str
    input: str
    folder: str
    name: str


def model_folder(class_type: str, port: InputPort, value: Any) -> str | None:
    """The folder that an input takes its models from; None when it chooses something else."""
    if port.choices is None or port.takes_upload:
        return None
    known = FOLDER_OF_CLASS.get((class_type, port.name)) or FOLDER_OF_INPUT.get(port.name)
    if known is not None:
        return known
    if _is_model_file(value) or any(_is_model_file(choice) for choice in port.choices):
        return UNKNOWN_FOLDER
    return None


def models_of_node(node: Node, ports: Mapping[str, InputPort]) -> Iterator[ModelReference]:
    """The models that one node names, given the ports of its type."""
    for name, given in node.inputs.items():
        port = ports.get(name)
        if port is None or port.choices is None:
            continue
        value = unwrap(given)
        if not isinstance(value, str):
            continue
        folder = model_folder(node.class_type, port, value)
        if folder is not None and (value not in port.choices or _is_model_file(value)):
            yield ModelReference(node.id, name, folder, value)


def models_of(workflow: Workflow, catalog: NodeCatalog) -> tuple[ModelReference, ...]:
    """Every model that the workflow names, in the order of its nodes."""
    found: list[ModelReference] = []
    for node in workflow.nodes.values():
        node_type = catalog.get(node.class_type)
        if node_type is not None:
            found.extend(models_of_node(node, ports_of(node_type, node.inputs)))
    return tuple(found)


def _is_model_file(value: object) -> bool:
    return isinstance(value, str) and value.lower().endswith(MODEL_SUFFIXES)
