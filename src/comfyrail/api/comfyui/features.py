"""What the server says of itself, as the ComfyUI whose protocol it speaks like its own workers."""

from typing import Any

from comfyrail.workflow import comfyui_features as of_workers

LARGEST_UPLOAD = of_workers.LARGEST_BODY

FEATURES: dict[str, Any] = {
    **of_workers.FEATURES,
    "extension": {"manager": {"supports_v4": False}},
}

NO_MODELS = frozenset({"configs", "custom_nodes"})
"""Folders of a ComfyUI that hold something else."""
