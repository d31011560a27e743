"""What the server says of itself, as the ComfyUI whose protocol it speaks."""

from typing import Any

COMFYUI_VERSION = "0.7.0"
"""Clients look at it to know what they may use."""
LARGEST_UPLOAD = 100 << 20

FEATURES: dict[str, Any] = {
    "supports_preview_metadata": True,
    "max_upload_size": LARGEST_UPLOAD,
    "extension": {"manager": {"supports_v4": False}},
}

MODEL_FOLDERS = (
    "checkpoints",
    "configs",
    "loras",
    "vae",
    "text_encoders",
    "diffusion_models",
    "clip_vision",
    "style_models",
    "embeddings",
    "diffusers",
    "vae_approx",
    "controlnet",
    "gligen",
    "upscale_models",
    "latent_upscale_models",
    "custom_nodes",
    "hypernetworks",
    "photomaker",
    "classifiers",
    "model_patches",
    "audio_encoders",
)
"""Those that every ComfyUI has; workers may have more."""
NO_MODELS = frozenset({"configs", "custom_nodes"})
"""Folders of a ComfyUI that hold something else."""
