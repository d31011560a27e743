"""The nodes that come with the engine."""

from comfyrail.engine.builtin import (
    animations,
    batches,
    compositing,
    files,
    filters,
    fitting,
    generators,
    images,
    mask_channels,
    masks,
    mixing,
    porter_duff,
    primitives,
    quantizing,
    regexes,
    scaling,
    strings,
    timing,
    transforms,
)
from comfyrail.engine.registry import NodeRegistry


def builtin_registry() -> NodeRegistry:
    """A new registry with all built-in nodes."""
    modules = (
        files,
        animations,
        images,
        scaling,
        fitting,
        mixing,
        filters,
        quantizing,
        transforms,
        batches,
        masks,
        mask_channels,
        compositing,
        porter_duff,
        primitives,
        strings,
        regexes,
        generators,
        timing,
    )
    return NodeRegistry(definition for module in modules for definition in module.NODES)
