"""How large a model is: as the workers tell, or else a guess by its name and folder."""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from comfyrail.workflow.capabilities import WorkerCapabilities
from comfyrail.workflow.models import UNKNOWN_FOLDER

GIGABYTE = 1_000_000_000

SIZE_OF_FOLDER: Mapping[str, float] = {
    "checkpoints": 6.9,
    "diffusion_models": 12.0,
    "text_encoders": 4.9,
    "clip_vision": 1.7,
    "loras": 0.2,
    "vae": 0.33,
    "controlnet": 1.5,
    "upscale_models": 0.07,
    "latent_upscale_models": 0.5,
    "style_models": 0.13,
    "gligen": 0.84,
    "hypernetworks": 0.1,
    "photomaker": 0.93,
    "audio_encoders": 0.63,
    "model_patches": 1.5,
}
"""Gigabytes of a usual file in 16 bits."""
SIZE_WHERE_UNKNOWN = 2.0

_BILLIONS = re.compile(r"(?<![a-z0-9.])(\d{1,3}(?:\.\d{1,2})?)b(?![a-z0-9])")
_FAMILIES: tuple[tuple[re.Pattern[str], float], ...] = (
    (re.compile(r"t5.?xxl|umt5"), 9.8),
    (re.compile(r"clip.?l\b|clip_l"), 0.25),
    (re.compile(r"clip.?g\b|clip_g"), 1.4),
    (re.compile(r"flux"), 23.8),
    (re.compile(r"sd3\.?5.?l|qwen"), 16.5),
    (re.compile(r"sdxl|xl\b|xl_|pony|illustrious"), 6.9),
    (re.compile(r"sd.?1|v1-5|1\.5|sd15|dreamshaper"), 2.1),
)
"""What the weights of well-known families take in 16 bits."""
_PRECISIONS: tuple[tuple[re.Pattern[str], float], ...] = (
    (re.compile(r"q2|int2"), 0.19),
    (re.compile(r"q3"), 0.25),
    (re.compile(r"q4|nf4|int4|fp4"), 0.3),
    (re.compile(r"q5"), 0.37),
    (re.compile(r"q6"), 0.42),
    (re.compile(r"q8|fp8|int8|e4m3|e5m2"), 0.5),
    (re.compile(r"fp32|float32"), 2.0),
)
_LARGE_FOLDERS = frozenset(("checkpoints", "diffusion_models", "text_encoders", "models"))
"""Folders whose files the name of a family describes; a LoRA for Flux is not as large as Flux."""


def told_sizes(workers: Iterable[WorkerCapabilities]) -> dict[str, int]:
    """Bytes by `folder/name`, of all workers that tell. Where they disagree the smallest counts:
    one worker's wrong figure must not keep a model from all of them.

    Every model is under `models/` too, where an input is looked up whose folder nobody knows.
    """
    sizes: dict[str, int] = {}
    for worker in workers:
        for folder, models in worker.models.items():
            for name, size in models.items():
                if size is None or size <= 0:
                    continue
                for key in (f"{folder}/{name}", f"{UNKNOWN_FOLDER}/{name}"):
                    sizes[key] = min(size, sizes.get(key, size))
    return sizes


def size_of_model(folder: str, name: str, known: Mapping[str, int]) -> tuple[int, bool]:
    """Bytes, and whether they are known. `known` has sizes by `folder/name` or by name alone."""
    size = known.get(f"{folder}/{name}", known.get(name))
    if size is not None and size > 0:
        return size, True
    return estimated_size(folder, name), False


@lru_cache(4096)
def estimated_size(folder: str, name: str) -> int:
    text = name[:300].lower()
    gigabytes = SIZE_OF_FOLDER.get(folder, SIZE_WHERE_UNKNOWN)
    if folder in _LARGE_FOLDERS:
        billions = _BILLIONS.search(text)
        families = (size for pattern, size in _FAMILIES if pattern.search(text))
        gigabytes = 2 * float(billions[1]) if billions else next(families, gigabytes)
        gigabytes *= next((share for each, share in _PRECISIONS if each.search(text)), 1.0)
    return max(1, round(gigabytes * GIGABYTE))
