"""What a server that speaks ComfyUI's protocol tells clients about itself."""

from typing import Any

LARGEST_BODY = 100 << 20

COMFYUI_VERSION = "0.7.0"
"""The ComfyUI whose protocol is spoken: clients look at it to know what they may use."""

FEATURES: dict[str, Any] = {
    "supports_preview_metadata": True,
    "max_upload_size": LARGEST_BODY,
    "extension": {"manager": {"supports_v4": True}},
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
"""Clients ask what is in them; there are no models here, so each is empty."""

NO_MODELS = frozenset({"configs", "custom_nodes"})
"""Folders of a ComfyUI that hold something else."""
