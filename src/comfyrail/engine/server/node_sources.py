"""Where a worker's node types come from: built in, from a ComfyUI checkout, from single packs."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from comfyrail.engine.builtin import builtin_registry
from comfyrail.engine.caching.build import CacheConfig
from comfyrail.engine.comfyui.arguments import CacheChoice, Listening
from comfyrail.engine.comfyui.checkout import LoadedCheckout, load_checkout, load_pack
from comfyrail.engine.comfyui.packs import PackFailure
from comfyrail.engine.comfyui.prompt_server import PromptServer
from comfyrail.engine.folders import Folders
from comfyrail.engine.registry import NodeRegistry
from comfyrail.engine.surroundings import Surroundings


@dataclass(frozen=True, slots=True)
class NodeSources:
    """Node types, and what they bring along: with a checkout, its folders and its world."""

    registry: NodeRegistry
    failures: Sequence[PackFailure] = ()
    surroundings: Surroundings | None = None
    folders: Folders | None = None
    listening: Listening | None = None
    server: PromptServer | None = None
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None
    change_cache: Callable[[CacheConfig], CacheConfig] | None = None


def load_nodes(
    comfyui: Path | None,
    comfyui_arguments: Sequence[str],
    packs: Sequence[Path],
    flags: Sequence[str] = (),
) -> NodeSources:
    """All node types. Built-in ones stay where neither the checkout nor a pack has their name.

    A pack that cannot be loaded is in `failures`. Raises ConfigurationError.
    """
    registry = builtin_registry()
    if comfyui is None:
        own = registry.names()
        failures = _load_packs(registry, packs, None, own)
        return NodeSources(registry, failures)
    checkout = load_checkout(comfyui, [*comfyui_arguments, *flags])
    checkout.register(registry)
    failures = [*checkout.failures, *_load_packs(registry, packs, checkout, ())]
    return NodeSources(
        registry,
        failures,
        checkout.surroundings,
        checkout.folders,
        checkout.listening,
        checkout.server,
        lambda: checkout.loop,
        lambda config: _as_comfyui_caches(config, checkout.cache),
    )


def _load_packs(
    registry: NodeRegistry,
    packs: Sequence[Path],
    checkout: LoadedCheckout | None,
    reserved: Sequence[str],
) -> list[PackFailure]:
    failures: list[PackFailure] = []
    for path in packs:
        pack = load_pack(path, checkout, reserved)
        for name, source in pack.sources.items():
            registry.add_source(name, source)
        failures.extend(pack.failures)
    return failures


def _as_comfyui_caches(config: CacheConfig, choice: CacheChoice) -> CacheConfig:
    if choice.kind == "none":
        off: dict[str, Any] = dict.fromkeys(("memory", "disk", "redis", "object_store"), False)
        return replace(config, **off)
    if choice.kind == "lru":
        return replace(config, memory_entries=int(choice.size))
    return config
