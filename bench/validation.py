"""Validation by itself: a usual workflow, a long one, and a large fleet."""

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from comfyrail.validation.context import ALL_STAGES, ERROR_STAGES, ValidationContext
from comfyrail.validation.fleet_fit import fleet_report
from comfyrail.validation.policy import SecurityPolicy, WorkflowLimits
from comfyrail.validation.validate import validate
from comfyrail.workflow.capabilities import GIBIBYTE, ResourceNeeds, WorkerCapabilities
from comfyrail.workflow.catalog import NodeCatalog, parse_object_info
from comfyrail.workflow.graph import Workflow, parse_workflow

OBJECT_INFO = Path(__file__).parents[1] / "tests" / "validation" / "data" / "object_info.json"
TYPES = 558
"""As many as a real ComfyUI has."""


async def workflows() -> None:
    """Bars: 0.3 ms for a submission of 10 nodes, 5 ms for one of 200."""
    await asyncio.to_thread(_measure)


def _measure() -> None:
    catalog = _catalog()
    for branches in (1, 25):
        graph = _graph(branches)
        for stages, named in ((ERROR_STAGES, "submission"), (ALL_STAGES, "with hints")):
            context = _context(catalog, 1, stages=stages)
            least = min(_validate_new(graph, context) for _ in range(100))
            print(f"  {len(graph):4} nodes, {named}: {least * 1000:.3f} ms")
    context = _context(catalog, 10_000, stages=ERROR_STAGES)
    workflow = parse_workflow(_graph(1))
    report = _least(lambda: fleet_report(workflow, context), rounds=5)
    first = _least(lambda: validate(workflow, context))
    print(
        f"  10,000 workers: {first * 1000:.3f} ms for a submission, {report * 1000:.0f} ms a report"
    )


def _validate_new(graph: dict[str, Any], context: ValidationContext) -> float:
    workflow = parse_workflow(graph)
    started = time.perf_counter()
    validate(workflow, context)
    return time.perf_counter() - started


def _least(run: Callable[[], Any], rounds: int = 100) -> float:
    times: list[float] = []
    for _ in range(rounds):
        started = time.perf_counter()
        run()
        times.append(time.perf_counter() - started)
    return min(times)


def _catalog() -> NodeCatalog:
    info = json.loads(OBJECT_INFO.read_text())
    info["CheckpointLoaderSimple"]["input"]["required"]["ckpt_name"][0] = ["sd15.safetensors"]
    for number in range(TYPES - len(info)):
        info[f"Type {number}"] = info["KSampler"]
    return parse_object_info(info)


def _context(catalog: NodeCatalog, workers: int, **options: Any) -> ValidationContext:
    return ValidationContext(
        catalog,
        [
            WorkerCapabilities(f"worker-{number}", catalog, video_memory=8 * GIBIBYTE)
            for number in range(workers)
        ],
        SecurityPolicy(limits=WorkflowLimits(*[None] * 8)),
        _needs,
        **options,
    )


def _needs(_: Workflow) -> ResourceNeeds:
    return ResourceNeeds(video_memory=GIBIBYTE)


def _graph(branches: int) -> dict[str, Any]:
    """One loader, and as many times the way from two prompts to a saved picture."""
    graph: dict[str, Any] = {"c": _node("CheckpointLoaderSimple", ckpt_name="sd15.safetensors")}
    for n in range(branches):
        sampler = {
            "model": ["c", 0],
            "seed": n,
            "steps": 20,
            "cfg": 8.0,
            "sampler_name": "euler",
            "scheduler": "normal",
            "positive": [f"p{n}", 0],
            "negative": [f"n{n}", 0],
            "latent_image": [f"l{n}", 0],
            "denoise": 1.0,
        }
        size = {"width": 512, "height": 512}
        graph |= {
            f"p{n}": _node("CLIPTextEncode", clip=["c", 1], text="a cat on a sofa, evening" * 9),
            f"n{n}": _node("CLIPTextEncode", clip=["c", 1], text="blurry"),
            f"l{n}": _node("EmptyLatentImage", **size, batch_size=1),
            f"k{n}": _node("KSampler", **sampler),
            f"d{n}": _node("VAEDecode", samples=[f"k{n}", 0], vae=["c", 2]),
            f"u{n}": _node(
                "ImageScale", image=[f"d{n}", 0], upscale_method="area", crop="disabled", **size
            ),
            f"i{n}": _node("ImageInvert", image=[f"u{n}", 0]),
            f"s{n}": _node("SaveImage", images=[f"i{n}", 0], filename_prefix="cats/one"),
        }
    return graph


def _node(class_type: str, **inputs: Any) -> dict[str, Any]:
    return {"class_type": class_type, "inputs": inputs}
