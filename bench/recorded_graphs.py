"""Workflows to record histories with: made at random, some again and again, as users do."""

import random
from collections.abc import Callable
from typing import Any

Graph = dict[str, dict[str, Any]]
Inputs = dict[str, Any]

SIZES = ((256, 256), (512, 384), (512, 512), (768, 512), (1024, 768), (1280, 720), (1536, 1024))

STEPS: dict[str, Callable[[random.Random], Inputs]] = {
    "ImageInvert": lambda _: {},
    "ImageBlur": lambda source: {"blur_radius": source.choice((1, 3, 8)), "sigma": 1.0},
    "ImageSharpen": lambda _: {"sharpen_radius": 2, "sigma": 1.0, "alpha": 1.0},
    "ImageScaleBy": lambda source: {
        "upscale_method": source.choice(("bilinear", "lanczos", "area")),
        "scale_by": source.choice((0.5, 1.5, 2.0)),
    },
    "ImageFlip": lambda _: {"flip_method": "x-axis: vertically"},
    "ImageRotate": lambda _: {"rotation": "90 degrees"},
    "ImageQuantize": lambda source: {"colors": source.choice((8, 64)), "dither": "none"},
    "ImageAddNoise": lambda source: {"seed": source.randrange(1 << 30), "strength": 0.3},
    "Morphology": lambda _: {"operation": "dilate", "kernel_size": 5},
    "ImageCrop": lambda _: {"width": 256, "height": 256, "x": 0, "y": 0},
    "RepeatImageBatch": lambda source: {"amount": source.choice((2, 3))},
    "ImagePadForOutpaint": lambda _: {
        **dict.fromkeys(("left", "top", "right", "bottom"), 64),
        "feathering": 20,
    },
}


def _start(source: random.Random, size: tuple[int, int]) -> dict[str, Any]:
    width, height = size
    kinds: list[tuple[str, Inputs]] = [
        ("EmptyImage", {"batch_size": source.choice((1, 1, 2, 4)), "color": 0}),
        ("GradientImage", {"colors": "#000000, #ffffff", "angle": 30.0, "shape": "linear"}),
        ("NoiseImage", {"seed": 0, "scale": 128.0, "octaves": 6, "palette": "fire"}),
    ]
    class_type, inputs = source.choice(kinds)
    return {"class_type": class_type, "inputs": {"width": width, "height": height, **inputs}}


def picture_graph(source: random.Random) -> Graph:
    """A chain of picture nodes of the engine, some with a second branch that is blended in."""
    size = source.choice(SIZES)
    graph: Graph = {"0": _start(source, size)}
    branches = [_extend(graph, "0", source, source.randint(1, 5))]
    if source.random() < 0.4:
        graph["b"] = _start(source, size)
        branches.append(_extend(graph, "b", source, source.randint(1, 3)))
        blend = {"blend_factor": 0.5, "blend_mode": "normal"}
        links = {"image1": [branches[0], 0], "image2": [branches[1], 0]}
        graph["m"] = {"class_type": "ImageBlend", "inputs": {**blend, **links}}
        branches.append("m")
    saver = source.choice(("SaveImage", "SaveImage", "PreviewImage"))
    graph["end"] = {"class_type": saver, "inputs": {"images": [branches[-1], 0]}}
    if saver == "SaveImage":
        graph["end"]["inputs"]["filename_prefix"] = "recorded"
    return graph


def _extend(graph: Graph, last: str, source: random.Random, length: int) -> str:
    for name in source.sample(list(STEPS), length):
        node_id = str(len(graph)) + "n"
        graph[node_id] = {"class_type": name, "inputs": {"image": [last, 0], **STEPS[name](source)}}
        last = node_id
    return last


def with_new_cheap_values(graph: Graph, source: random.Random) -> Graph:
    """The same graph with other seeds, colours, angles and texts in most of its nodes."""
    fresh: dict[str, Callable[[], Any]] = {
        "seed": lambda: source.randrange(1 << 30),
        "color": lambda: source.randrange(1 << 24),
        "angle": lambda: source.uniform(0, 360),
        "text": lambda: f"a picture of {source.randrange(1 << 30)}",
    }
    changed: Graph = {}
    for node_id, node in graph.items():
        if source.random() < 0.3:
            changed[node_id] = node  # users change one thing at a time
            continue
        inputs = {
            name: fresh[name]() if name in fresh and not isinstance(value, list) else value
            for name, value in node["inputs"].items()
        }
        changed[node_id] = {**node, "inputs": inputs}
    return changed


def diffusion_graph(source: random.Random, models: list[str]) -> Graph:
    """Text to picture at some small size, for a model that runs on a CPU."""
    width, height = source.choice(((64, 64), (96, 64), (128, 128), (192, 128), (256, 256)))
    sampling = {
        "seed": 0,
        "steps": source.choice((1, 2, 4, 8)),
        "cfg": source.choice((7.0, 7.0, 1.0)),
        "sampler_name": source.choice(("euler", "euler", "dpmpp_2m", "heun")),
        "scheduler": "normal",
        "denoise": source.choice((1.0, 1.0, 0.5)),
        "model": ["1", 0],
        "positive": ["2", 0],
        "negative": ["3", 0],
        "latent_image": ["4", 0],
    }
    size = {"width": width, "height": height, "batch_size": source.choice((1, 1, 2))}
    graph: Graph = {
        "1": {
            "class_type": "CheckpointLoaderSimple",
            "inputs": {"ckpt_name": source.choice(models)},
        },
        "2": {"class_type": "CLIPTextEncode", "inputs": {"text": "a", "clip": ["1", 1]}},
        "3": {"class_type": "CLIPTextEncode", "inputs": {"text": "blurry", "clip": ["1", 1]}},
        "4": {"class_type": "EmptyLatentImage", "inputs": size},
        "5": {"class_type": "KSampler", "inputs": sampling},
        "6": {"class_type": "VAEDecode", "inputs": {"samples": ["5", 0], "vae": ["1", 2]}},
    }
    last = "6"
    if source.random() < 0.3:
        scale = {"image": ["6", 0], "upscale_method": "bilinear", "scale_by": 2.0}
        graph["8"] = {"class_type": "ImageScaleBy", "inputs": scale}
        last = "8"
    saving = {"images": [last, 0], "filename_prefix": "recorded"}
    graph["7"] = {"class_type": "SaveImage", "inputs": saving}
    return graph


def workload(
    make: Callable[[random.Random], Graph], *, seed: int, kinds: int, jobs: int
) -> list[Graph]:
    """`jobs` graphs of `kinds` kinds, the first ones far more often than the last (Zipf)."""
    source = random.Random(seed)
    templates = [make(source) for _ in range(kinds)]
    weights = [1 / (rank + 1) for rank in range(kinds)]
    chosen = source.choices(templates, weights, k=jobs)
    return [with_new_cheap_values(graph, source) for graph in chosen]
