"""The nodes that come with the engine."""

from comfyrail.engine.builtin import (
    batches,
    compositing,
    files,
    fitting,
    generators,
    images,
    mask_channels,
    masks,
    mixing,
    porter_duff,
    scaling,
    timing,
    transforms,
)
from comfyrail.engine.registry import NodeRegistry


def builtin_registry() -> NodeRegistry:
    """A new registry with all built-in nodes."""
    modules = (
        files,
        images,
        scaling,
        fitting,
        mixing,
        transforms,
        batches,
        masks,
        mask_channels,
        compositing,
        porter_duff,
        generators,
        timing,
    )
    return NodeRegistry(definition for module in modules for definition in module.NODES)
