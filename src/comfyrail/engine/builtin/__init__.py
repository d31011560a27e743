"""The nodes that come with the engine."""

from comfyrail.engine.builtin import files, generators, images, mixing, scaling, timing
from comfyrail.engine.registry import NodeRegistry


def builtin_registry() -> NodeRegistry:
    """A new registry with all built-in nodes."""
    modules = (files, images, scaling, mixing, generators, timing)
    return NodeRegistry(definition for module in modules for definition in module.NODES)
