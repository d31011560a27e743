"""A diffusion model of random weights that ComfyUI takes for one of its own: small and fast."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from .install import Peer

LIMIT_SECONDS = 120.0

# The shape says to ComfyUI what it is: 320 channels and a context of 768 mean Stable Diffusion 1.
SCRIPT = """
import sys

target = sys.argv.pop()
sys.argv.append("--cpu")
import comfy.options

comfy.options.enable_args_parsing()
import comfy.ops
import torch
from comfy.ldm.modules.diffusionmodules.openaimodel import UNetModel
from safetensors.torch import save_file

model = UNetModel(
    image_size=32,
    in_channels=4,
    out_channels=4,
    model_channels=320,
    num_res_blocks=[1, 1],
    channel_mult=(1, 1),
    num_heads=8,
    use_spatial_transformer=True,
    transformer_depth=[1, 0],
    transformer_depth_output=[1, 1, 0, 0],
    transformer_depth_middle=-1,
    legacy=False,
    context_dim=768,
    dtype=torch.float32,
    operations=comfy.ops.disable_weight_init,
)
torch.manual_seed(0)
weights = {name: torch.randn(each.shape) * 0.02 for name, each in model.state_dict().items()}
save_file({name: each.half().contiguous() for name, each in weights.items()}, target)
"""


def make_tiny_model(peer: Peer, target: Path) -> None:
    """Write the model to a file (64 MB, about 5 s)."""
    target.parent.mkdir(parents=True, exist_ok=True)
    made = subprocess.run(
        [str(peer.python), "-c", SCRIPT, str(target)],
        cwd=peer.checkout,
        env=peer.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT_SECONDS,
        check=False,
    )
    assert made.returncode == 0, made.stdout[-3000:]
