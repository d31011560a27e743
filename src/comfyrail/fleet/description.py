"""What a worker says of its machine and of the models on it."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from comfyrail.errors import WorkerError
from comfyrail.fleet.comfyui.client import ComfyClient

KEEPING_OPTIONS = frozenset(("--cache-lru", "--cache-ram"))
"""Options of ComfyUI with which it keeps more than the latest prompt's results."""
MODELS_KEPT = 20_000
"""So many models of a worker are remembered with their sizes."""


@dataclass(frozen=True, slots=True)
class WorkerDescription:
    """None: it did not say. Models: size in bytes by folder and name."""

    device: str | None = None
    video_memory: int | None = None
    memory: int | None = None
    keeps_models: bool = True
    """Whether the models of earlier jobs stay in memory while there is room."""
    models: Mapping[str, Mapping[str, int | None]] = field(default_factory=dict)

    def encode(self) -> bytes:
        return msgspec.json.encode(self)


def decode_description(content: bytes | None) -> WorkerDescription:
    """What was remembered; nothing where it cannot be read."""
    try:
        return msgspec.json.decode(content or b"{}", type=WorkerDescription)
    except msgspec.MsgspecError:
        return WorkerDescription()


def describe_machine(
    stats: Mapping[str, Any], models: Mapping[str, Mapping[str, int | None]]
) -> WorkerDescription:
    """From /system_stats. The figures come from a worker: what makes no sense is left out."""
    system = stats.get("system")
    device = _first_device(stats)
    return WorkerDescription(
        device=_text(device.get("name")),
        video_memory=_bytes(device.get("vram_total")),
        memory=_bytes(system.get("ram_total")) if isinstance(system, dict) else None,
        keeps_models=_keeps_models(system if isinstance(system, dict) else {}),
        models=models,
    )


def _keeps_models(system: Mapping[str, Any]) -> bool:
    """A ComfyUI lets go of what its latest prompt did not use, unless it was started otherwise."""
    given = system.get("argv")
    arguments = [str(each) for each in given] if isinstance(given, list) else []
    return "comfyrail_version" in system or any(
        each.partition("=")[0] in KEEPING_OPTIONS for each in arguments
    )


def free_video_memory(stats: Mapping[str, Any]) -> int | None:
    return _bytes(_first_device(stats).get("vram_free"))


async def ask_for_models(
    client: ComfyClient, known: Mapping[str, Mapping[str, int | None]]
) -> Mapping[str, Mapping[str, int | None]]:
    """The worker's models by folder and name; what it does not tell now is as it was known."""
    try:
        folders = await client.model_folders()
    except WorkerError:
        return known
    listed = await asyncio.gather(
        *(_models_in(client, folder, known.get(folder)) for folder in folders)
    )
    found: dict[str, Mapping[str, int | None]] = {}
    left = MODELS_KEPT
    for folder, models in zip(folders, listed, strict=True):
        # An empty folder is worth knowing: the worker has none of these. A part of one is not:
        # what is missing in it would be held against the worker.
        if models is not None and len(models) <= left:
            left -= len(models)
            found[folder] = models
    return found


async def _models_in(
    client: ComfyClient, folder: str, known: Mapping[str, int | None] | None
) -> Mapping[str, int | None] | None:
    try:
        entries: Sequence[Any] = await client.models_in(folder)
    except WorkerError:
        return known
    return {
        entry["name"]: _bytes(entry.get("size"))
        for entry in entries
        if isinstance(entry, dict) and isinstance(entry.get("name"), str)
    }


def _first_device(stats: Mapping[str, Any]) -> Mapping[str, Any]:
    devices = stats.get("devices")
    first = devices[0] if isinstance(devices, list) and devices else {}
    return first if isinstance(first, dict) else {}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _bytes(value: object) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62:
        return value
    return None
