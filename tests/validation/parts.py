"""A catalog as a real ComfyUI gives it, and short ways to validate against it."""

import copy
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from comfyrail.validation.context import ERROR_STAGES, ValidationContext
from comfyrail.validation.findings import Finding
from comfyrail.validation.policy import SecurityPolicy, WorkflowLimits
from comfyrail.validation.validate import validate
from comfyrail.workflow.catalog import NodeCatalog, parse_object_info
from comfyrail.workflow.graph import parse_workflow
from tests.graphs import Graph

DATA = Path(__file__).parent / "data"
FORMATS = Path(__file__).parents[1] / "workflow_formats" / "data"

MODELS = {
    "CheckpointLoaderSimple": ("ckpt_name", ["sd15.safetensors", "XL/sdxl_base_1.0.safetensors"]),
    "LoraLoader": ("lora_name", ["detail.safetensors", "style_a.safetensors"]),
    "VAELoader": ("vae_name", ["kl-f8.safetensors", "pixel_space"]),
}

MULTILINE = ["STRING", {"multiline": True}]

CUSTOM = {
    "FetchImage": {
        "input": {"required": {"url": ["STRING", {}]}},
        "output": ["IMAGE"],
        "python_module": "custom_nodes.fetch-pack",
    },
    "WebPicture": {
        "input": {"required": {"source": ["STRING", {}]}},
        "output": ["IMAGE"],
        "python_module": "custom_nodes.fetch-pack.nodes",
    },
    "Formula": {
        "input": {"required": {"expression": ["STRING", {"multiline": True}]}},
        "output": ["INT"],
    },
    "RunTool": {"input": {"required": {"command": ["STRING", {}]}}, "output": ["INT"]},
    "LoadFolder": {
        "input": {"required": {"directory": ["STRING", {}]}},
        "output": ["IMAGE"],
    },
    "ExecuteSystemCommand": {"input": {"required": {}}, "output": ["INT"]},
    "IDENode": {"input": {"required": {}}, "output": ["INT"]},
    "Options": {
        "input": {
            "required": {
                "flag": ["BOOLEAN", {}],
                "level": ["INT", {}],
                "ratio": ["FLOAT", {"min": 0.5, "max": 2.5}],
                "size": [[1, 2, 4, "auto"], {}],
            },
            "optional": {"extra": ["*", {}], "mask": ["MASK", {}]},
        },
        "output": ["INT"],
    },
}


def object_info() -> dict[str, Any]:
    """A copy that a test may change."""
    info: dict[str, Any] = json.loads((DATA / "object_info.json").read_text())
    for class_type, (name, choices) in MODELS.items():
        info[class_type]["input"]["required"][name][0] = choices
    several = {"required": dict.fromkeys(("string", "find", "replace"), MULTILINE)}
    info["StringReplace"] = {"input": several, "output": ["STRING"]}
    return info | copy.deepcopy(CUSTOM)


@cache
def catalog() -> NodeCatalog:
    return parse_object_info(object_info())


@cache
def whole_catalog() -> NodeCatalog:
    """All that a ComfyUI has by itself, without models."""
    return parse_object_info(json.loads((FORMATS / "object_info.json").read_text()))


FREE = SecurityPolicy(limits=WorkflowLimits(*[None] * 8))


def context(policy: SecurityPolicy | None = None, **options: Any) -> ValidationContext:
    options.setdefault("catalog", catalog())
    options.setdefault("stages", ERROR_STAGES)
    return ValidationContext(policy=policy or SecurityPolicy(), **options)


def findings(
    graph: Mapping[Any, Any], policy: SecurityPolicy | None = None, **options: Any
) -> list[Finding]:
    return validate(parse_workflow(graph), context(policy, **options))


def codes(graph: Mapping[Any, Any], **options: Any) -> list[tuple[str, str | None]]:
    return [(each.error_code, each.path) for each in findings(graph, **options)]


def shown_image(**nodes: Any) -> Graph:
    """EmptyImage → PreviewImage, and more nodes."""
    size = {"width": 64, "height": 64, "batch_size": 1, "color": 0}
    return {
        "1": {"class_type": "EmptyImage", "inputs": size},
        "2": {"class_type": "PreviewImage", "inputs": {"images": ["1", 0]}},
        **{name: copy.deepcopy(node) for name, node in nodes.items()},
    }


def node(class_type: str, **inputs: Any) -> dict[str, Any]:
    return {"class_type": class_type, "inputs": inputs}


def text_to_image(**sampler: Any) -> Graph:
    """What most workflows are made of."""
    settings: dict[str, Any] = {
        "seed": 1,
        "steps": 20,
        "cfg": 8.0,
        "sampler_name": "euler",
        "scheduler": "normal",
        "denoise": 1.0,
    }
    links = {
        "model": ["c", 0],
        "positive": ["p", 0],
        "negative": ["n", 0],
        "latent_image": ["l", 0],
    }
    return {
        "c": node("CheckpointLoaderSimple", ckpt_name="sd15.safetensors"),
        "p": node("CLIPTextEncode", clip=["c", 1], text="a cat"),
        "n": node("CLIPTextEncode", clip=["c", 1], text="blurry"),
        "l": node("EmptyLatentImage", width=512, height=512, batch_size=1),
        "k": node("KSampler", **settings | links | sampler),
        "d": node("VAEDecode", samples=["k", 0], vae=["c", 2]),
        "s": node("SaveImage", images=["d", 0], filename_prefix="cat"),
    }
