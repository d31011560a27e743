"""What a run takes at its peak: video memory, memory, disk. Estimates, on the generous side."""

from collections.abc import Iterable, Mapping

from comfyrail.planning.node_kinds import NodeKind
from comfyrail.planning.node_work import NodeWork
from comfyrail.workflow.capabilities import GIBIBYTE, ResourceNeeds

ACTIVATIONS_A_MEGAPIXEL: Mapping[NodeKind, int] = {
    NodeKind.SAMPLER: 2 * GIBIBYTE,
    NodeKind.VAE: 3 * GIBIBYTE,
    NodeKind.ENHANCE: GIBIBYTE // 2,
}
MOST_ACTIVATIONS = 16 * GIBIBYTE
"""Beyond this ComfyUI works in tiles or moves parts of the model out."""
RUNTIME_VIDEO_MEMORY = GIBIBYTE // 2
"""What CUDA and its libraries take for themselves."""
BYTES_A_PIXEL_IN_MEMORY = 12
"""Three channels of 32 bits, as ComfyUI holds pictures."""
BYTES_A_PIXEL_ON_DISK = 3
"""A PNG of noise; most pictures take half of it."""
RUNTIME_MEMORY = GIBIBYTE // 4
MOST_BYTES = 1 << 50

_STAGE_OF_FOLDER: Mapping[str, str] = {
    "text_encoders": "text",
    "clip_vision": "text",
    "vae": "vae",
    "upscale_models": "enhance",
    "latent_upscale_models": "enhance",
    "audio_encoders": "text",
}
"""Models of other folders are used together, by the sampler. Stages take turns on a GPU."""


def resource_needs(works: Iterable[NodeWork], sizes: Iterable[tuple[str, int]]) -> ResourceNeeds:
    """`sizes` are the folder and the bytes of every model, each once.

    A workflow without models is taken to need no GPU.
    """
    stages: dict[str, int] = {}
    for folder, size in sizes:
        stage = _STAGE_OF_FOLDER.get(folder, "sampling")
        stages[stage] = stages.get(stage, 0) + size
    activations = 0.0
    pixels = 0.0
    saved = 0.0
    for work in works:
        if not work.runs:
            continue
        activations = max(activations, work.megapixels * ACTIVATIONS_A_MEGAPIXEL.get(work.kind, 0))
        pixels += work.megapixels * 1e6
        if work.kind is NodeKind.OUTPUT:
            saved += work.megapixels * 1e6
    video = 0
    if stages:
        video = max(stages.values()) + RUNTIME_VIDEO_MEMORY
        video += round(min(activations, MOST_ACTIVATIONS))
    memory = RUNTIME_MEMORY + sum(stages.values()) + round(pixels * BYTES_A_PIXEL_IN_MEMORY)
    disk = round(saved * BYTES_A_PIXEL_ON_DISK)
    return ResourceNeeds(*(min(each, MOST_BYTES) for each in (video, memory, disk)))
