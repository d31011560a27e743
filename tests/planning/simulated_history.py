"""A made-up fleet and its users: a history in which the true costs are known to nobody.

The costs here are not those that the duration model assumes: powers of the size that are not 1,
loading that shows in the sampler, devices that differ by kind of node and slow down, outliers.
"""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from comfyrail.clock import Instant
from comfyrail.planning.analysis import Analysis, analyse
from comfyrail.planning.node_kinds import NodeKind
from comfyrail.planning.node_work import NodeWork
from comfyrail.planning.records import ExecutionRecord, record_of
from comfyrail.workflow.catalog import NodeCatalog, parse_object_info
from comfyrail.workflow.graph import parse_workflow

Graph = dict[str, dict[str, Any]]

MODELS: Mapping[str, tuple[float, float]] = {
    "v1-5-pruned.safetensors": (1.0, 2.1),
    "dreamshaper_8.safetensors": (1.0, 2.1),
    "sd_xl_base_1.0.safetensors": (2.6, 6.9),
    "flux1-dev-fp8.safetensors": (14.0, 17.2),
}
"""How much work a step is, and gigabytes."""
DEVICES: Mapping[str, tuple[float, float]] = {
    "cuda:0 NVIDIA GeForce RTX 4090": (1.0, 1.0),
    "cuda:1 NVIDIA GeForce RTX 3090": (1.75, 1.1),
    "cuda:0 NVIDIA L4": (3.2, 1.4),
}
"""How slow the GPU is, and the rest of the machine."""


def _node_type(
    inputs: Mapping[str, Any], outputs: tuple[str, ...], *, is_output: bool = False
) -> dict[str, Any]:
    required = {
        name: (list(kind) if isinstance(kind, tuple) else kind,) for name, kind in inputs.items()
    }
    return {
        "input": {"required": required},
        "output": list(outputs),
        "output_node": is_output,
    }


_SAMPLING = {
    "model": "MODEL",
    "seed": "INT",
    "steps": "INT",
    "cfg": "FLOAT",
    "sampler_name": ("euler", "dpmpp_2m", "dpmpp_sde"),
    "scheduler": ("normal", "karras"),
    "positive": "CONDITIONING",
    "negative": "CONDITIONING",
    "latent_image": "LATENT",
    "denoise": "FLOAT",
}
OBJECT_INFO: Mapping[str, Any] = {
    "CheckpointLoaderSimple": _node_type({"ckpt_name": tuple(MODELS)}, ("MODEL", "CLIP", "VAE")),
    "LoraLoader": _node_type(
        {
            "model": "MODEL",
            "clip": "CLIP",
            "lora_name": ("style.safetensors",),
            "strength_model": "FLOAT",
        },
        ("MODEL", "CLIP"),
    ),
    "CLIPTextEncode": _node_type({"text": "STRING", "clip": "CLIP"}, ("CONDITIONING",)),
    "EmptyLatentImage": _node_type(
        {"width": "INT", "height": "INT", "batch_size": "INT"}, ("LATENT",)
    ),
    "KSampler": _node_type(_SAMPLING, ("LATENT",)),
    "LatentUpscaleBy": _node_type(
        {"samples": "LATENT", "upscale_method": ("bilinear",), "scale_by": "FLOAT"}, ("LATENT",)
    ),
    "VAEDecode": _node_type({"samples": "LATENT", "vae": "VAE"}, ("IMAGE",)),
    "VAEEncode": _node_type({"pixels": "IMAGE", "vae": "VAE"}, ("LATENT",)),
    "UpscaleModelLoader": _node_type({"model_name": ("4x.pth",)}, ("UPSCALE_MODEL",)),
    "ImageUpscaleWithModel": _node_type(
        {"upscale_model": "UPSCALE_MODEL", "image": "IMAGE"}, ("IMAGE",)
    ),
    "ImageScale": _node_type({"image": "IMAGE", "width": "INT", "height": "INT"}, ("IMAGE",)),
    "ImageBlur": _node_type({"image": "IMAGE", "blur_radius": "INT"}, ("IMAGE",)),
    "PrimitiveInt": _node_type({"value": "INT"}, ("INT",)),
    "SaveImage": _node_type({"images": "IMAGE", "filename_prefix": "STRING"}, (), is_output=True),
}
CATALOG: NodeCatalog = parse_object_info(OBJECT_INFO)


def text_to_image(
    model: str = "v1-5-pruned.safetensors",
    size: tuple[int, int] = (512, 512),
    batch: int = 1,
    **sampling: Any,
) -> Graph:
    """The first workflow of every ComfyUI user."""
    values = {
        "seed": 1,
        "steps": 20,
        "cfg": 7.0,
        "sampler_name": "euler",
        "scheduler": "normal",
        "denoise": 1.0,
        **sampling,
    }
    links = {"model": "1", "positive": "2", "negative": "3", "latent_image": "4"}
    values.update({name: [node, 0] for name, node in links.items()})
    latent = {"width": size[0], "height": size[1], "batch_size": batch}
    return {
        "1": {"class_type": "CheckpointLoaderSimple", "inputs": {"ckpt_name": model}},
        "2": {"class_type": "CLIPTextEncode", "inputs": {"text": "a boat", "clip": ["1", 1]}},
        "3": {"class_type": "CLIPTextEncode", "inputs": {"text": "blurry", "clip": ["1", 1]}},
        "4": {"class_type": "EmptyLatentImage", "inputs": latent},
        "5": {"class_type": "KSampler", "inputs": values},
        "6": {"class_type": "VAEDecode", "inputs": {"samples": ["5", 0], "vae": ["1", 2]}},
        "7": {
            "class_type": "SaveImage",
            "inputs": {"images": ["6", 0], "filename_prefix": "boat"},
        },
    }


def random_graph(source: random.Random) -> Graph:
    """Text to image in one of its usual forms."""
    model = source.choices(list(MODELS), (4, 2, 4, 2))[0]
    small = model.startswith(("v1", "dream"))
    sizes = ((512, 512), (512, 768), (640, 640)) if small else ((1024, 1024), (832, 1216))
    graph = text_to_image(
        model,
        source.choice(sizes),
        source.choice((1, 1, 1, 2, 4)),
        steps=source.choice((4, 12, 20, 20, 25, 30, 40)),
        sampler_name=source.choice(("euler", "euler", "dpmpp_2m", "dpmpp_sde")),
        cfg=1.0 if model.startswith("flux") else 7.0,
    )
    for extend in (_with_lora, _with_second_pass, _with_upscaler):
        if source.random() < 0.25:
            extend(graph, source)
    return graph


def _with_lora(graph: Graph, _source: random.Random) -> None:
    lora = {"model": ["1", 0], "clip": ["1", 1], "lora_name": "style.safetensors"}
    graph["l"] = {"class_type": "LoraLoader", "inputs": {**lora, "strength_model": 0.8}}
    graph["5"]["inputs"]["model"] = ["l", 0]
    for text in "23":
        graph[text]["inputs"]["clip"] = ["l", 1]


def _with_second_pass(graph: Graph, source: random.Random) -> None:
    scale = {"samples": ["5", 0], "upscale_method": "bilinear", "scale_by": 1.5}
    graph["u"] = {"class_type": "LatentUpscaleBy", "inputs": scale}
    again = {"latent_image": ["u", 0], "denoise": 0.5, "steps": source.choice((10, 15))}
    graph["s"] = {"class_type": "KSampler", "inputs": {**graph["5"]["inputs"], **again}}
    graph["6"]["inputs"]["samples"] = ["s", 0]


def _with_upscaler(graph: Graph, _source: random.Random) -> None:
    graph["m"] = {"class_type": "UpscaleModelLoader", "inputs": {"model_name": "4x.pth"}}
    inputs = {"upscale_model": ["m", 0], "image": ["6", 0]}
    graph["e"] = {"class_type": "ImageUpscaleWithModel", "inputs": inputs}
    graph["7"]["inputs"]["images"] = ["e", 0]


@dataclass
class Machine:
    """A worker that has one checkpoint in memory at a time."""

    device: str
    loaded: str | None = None
    drift: float = 1.0

    def run(self, analysis: Analysis, source: random.Random) -> tuple[dict[str, float], set[str]]:
        """Seconds by node, and the nodes that were known."""
        checkpoint = next(
            model.reference.name for model in analysis.models if model.reference.name in MODELS
        )
        is_cold = self.loaded != checkpoint
        self.loaded = checkpoint
        known = set()
        seconds = {}
        for node_id, work in analysis.works.items():
            chance = {NodeKind.LOADER: 1.0, NodeKind.TEXT: 0.4}.get(work.kind, 0.0)
            if not is_cold and source.random() < chance:
                known.add(node_id)
                continue
            true = self._seconds(work, MODELS.get(work.model or "", (1.0, 0.1)), is_cold=is_cold)
            seconds[node_id] = true * source.lognormvariate(0, 0.07) * self.drift
        if source.random() < 0.03:
            seconds = {node: 3 * taken for node, taken in seconds.items()}
        return seconds, known

    def _seconds(self, work: NodeWork, model: tuple[float, float], *, is_cold: bool) -> float:
        gpu, rest = DEVICES[self.device]
        weight, gigabytes = model
        area = work.megapixels
        larger_area: float = area**1.12
        heavier: float = weight**0.5
        match work.kind:
            case NodeKind.SAMPLER:
                loading = gigabytes / 9 if is_cold else 0.0
                return loading + gpu * weight * work.steps * (0.012 + 0.085 * larger_area)
            case NodeKind.LOADER:
                return rest * (0.3 + gigabytes / 1.6)
            case NodeKind.TEXT:
                return gpu * 0.03 * heavier + (gigabytes / 20 if is_cold else 0.0)
            case NodeKind.VAE:
                return gpu * (0.04 + 0.16 * larger_area)
            case NodeKind.ENHANCE:
                return gpu * (0.1 + 0.12 * area)
            case _:
                return rest * (0.004 + 0.11 * area)


@dataclass
class Fleet:
    """Users with habits, machines that take turns."""

    source: random.Random
    machines: list[Machine] = field(default_factory=lambda: [Machine(name) for name in DEVICES])

    def history(self, jobs: int, kinds: int = 70) -> Iterator[ExecutionRecord]:
        templates = [random_graph(self.source) for _ in range(kinds)]
        weights = [1 / (rank + 1) ** 0.9 for rank in range(kinds)]
        for number in range(jobs):
            graph = self.source.choices(templates, weights)[0]
            if self.source.random() < 0.1:
                graph = random_graph(self.source)
            if number == jobs // 2:
                self.machines[1].drift = 1.3
            yield self.run(graph, number)

    def run(self, graph: Graph, number: int) -> ExecutionRecord:
        analysis = analyse(parse_workflow(graph), CATALOG, {})
        machine = self._choose(analysis)
        seconds, known = machine.run(analysis, self.source)
        return record_of(
            analysis,
            job_id=str(number),
            device=machine.device,
            seconds=sum(seconds.values()) + self.source.lognormvariate(-1.6, 0.2),
            finished_at=Instant(1_700_000_000_000 + 1000 * number),
            node_seconds=seconds,
            cached=known,
        )

    def _choose(self, analysis: Analysis) -> Machine:
        """Most often one that has the model loaded."""
        names = {model.reference.name for model in analysis.models}
        warm = [machine for machine in self.machines if machine.loaded in names]
        if warm and self.source.random() < 0.7:
            return self.source.choice(warm)
        return self.source.choices(self.machines, (4, 2, 1))[0]


def simulated_history(jobs: int = 1000, seed: int = 3) -> list[ExecutionRecord]:
    return list(Fleet(random.Random(seed)).history(jobs))
