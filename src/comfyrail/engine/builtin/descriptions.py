"""Entries of /object_info for node types that ComfyUI describes with more than ports."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from comfyrail.engine.definition import NodeDefinition
from comfyrail.engine.folders import Folders
from comfyrail.engine.registry import describe_node

_NOWHERE = Folders(Path(), Path(), Path())


def describe_as(definition: NodeDefinition, **entries: Any) -> NodeDefinition:
    """The node type with these entries in place of those that its ports would give."""
    return replace(definition, described={**describe_node(definition, _NOWHERE), **entries})
