"""Write a small checkpoint of random weights that ComfyUI takes for Stable Diffusion 1.5.

Run by ComfyUI's own Python, in its checkout: `python random_checkpoint.py OUT.safetensors [SEED]`.
"""

import importlib
import json
import sys
from pathlib import Path
from typing import Any

UNET = {
    "image_size": 32,
    "in_channels": 4,
    "out_channels": 4,
    "model_channels": 320,
    "num_res_blocks": [1],
    "channel_mult": [1],
    "transformer_depth": [1],
    "transformer_depth_output": [1, 1],
    "transformer_depth_middle": 1,
    "context_dim": 768,
    "num_heads": 8,
    "use_spatial_transformer": True,
    "use_linear_in_transformer": False,
    "legacy": False,
}

DEFAULT_SEED = 20261115


def main(target: Path, seed: int) -> None:
    sys.path.insert(0, str(Path.cwd()))
    options: Any = importlib.import_module("comfy.cli_args")
    options.args.cpu = True
    torch: Any = importlib.import_module("torch")
    torch.manual_seed(seed)
    operations: Any = importlib.import_module("comfy.ops").disable_weight_init
    unet_module: Any = importlib.import_module("comfy.ldm.modules.diffusionmodules.openaimodel")
    clip_module: Any = importlib.import_module("comfy.clip_model")
    taesd_module: Any = importlib.import_module("comfy.taesd.taesd")
    clip_config = json.loads(Path("comfy/sd1_clip_config.json").read_text())
    parts = {
        "model.diffusion_model.": unet_module.UNetModel(**UNET, operations=operations),
        "cond_stage_model.transformer.": clip_module.CLIPTextModel(
            clip_config, torch.float32, "cpu", operations
        ),
        "first_stage_model.": taesd_module.TAESD(latent_channels=4),
    }
    weights = {}
    for prefix, part in parts.items():
        for name, value in part.state_dict().items():
            weights[prefix + name] = (
                random_like(torch, prefix, name, value)
                if value.dtype.is_floating_point
                else value.contiguous()
            )
    save: Any = importlib.import_module("safetensors.torch").save_file
    save(weights, str(target))


def random_like(torch: Any, prefix: str, name: str, value: Any) -> Any:
    """Activations must neither vanish nor explode, and the picture must not be flat."""
    gain = 1.5 if prefix == "first_stage_model." else 0.6
    spread = gain / max(1, value[0].numel()) ** 0.5 if value.ndim > 1 else 0.02
    filled = torch.randn(value.shape) * spread
    shift = 1.0 if name.endswith("norm.weight") else 0.0
    return (filled + shift).to(torch.float16)


if __name__ == "__main__":
    chosen_seed = int(sys.argv[2]) if len(sys.argv) > 2 else DEFAULT_SEED
    main(Path(sys.argv[1]).absolute(), chosen_seed)
