"""The node that adds noise to images."""

import numpy as np

from comfyrail.engine.context import NodeContext
from comfyrail.engine.definition import node
from comfyrail.engine.normal_noise import normal_noise
from comfyrail.engine.pixels import FloatArray


@node(
    "ImageAddNoise",
    required={
        "image": ("IMAGE", {}),
        "seed": (
            "INT",
            {"default": 0, "min": 0, "max": 0xFFFFFFFFFFFFFFFF, "control_after_generate": True},
        ),
        "strength": ("FLOAT", {"default": 0.5, "min": 0.0, "max": 1.0, "step": 0.01}),
    },
    outputs=("IMAGE",),
    category="image",
    schema="v3",
)
def add_noise(image: FloatArray, seed: int, strength: float, context: NodeContext) -> FloatArray:
    """Another noise for each image of a batch."""
    noise = normal_noise(image.shape, seed, context.check_interrupt)
    noise *= np.float32(strength)
    noise += image
    return np.clip(noise, 0, 1, out=noise)


NODES = (add_noise,)
