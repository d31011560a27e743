"""Nodes between images and masks: a channel as a mask, a mask as an image."""

import numpy as np

from comfyrail.engine.builtin.loading import load_image
from comfyrail.engine.builtin.saving import preview_image
from comfyrail.engine.context import NodeContext
from comfyrail.engine.definition import NodeResult, node
from comfyrail.engine.picture_files import open_picture, to_mode, upright
from comfyrail.engine.pixels import FloatArray, to_floats
from comfyrail.engine.resampling import resize

_CHANNELS = ("red", "green", "blue", "alpha")
_ONE = np.float32(1)


@node(
    "ImageToMask",
    required={
        "image": ("IMAGE", {}),
        "channel": ("COMBO", {"multiselect": False, "options": list(_CHANNELS)}),
    },
    outputs=("MASK",),
    category="mask",
    display_name="Convert Image to Mask",
    schema="v3",
    batches="image",
)
def image_to_mask(image: FloatArray, channel: str) -> FloatArray:
    index = _CHANNELS.index(channel)
    if index >= image.shape[-1]:
        raise ValueError(f"The image has no {channel} channel: it has {image.shape[-1]} channels.")
    return image[..., index].copy()


@node(
    "MaskToImage",
    required={"mask": ("MASK", {})},
    outputs=("IMAGE",),
    category="mask",
    display_name="Convert Mask to Image",
    schema="v3",
    batches="mask",
)
def mask_to_image(mask: FloatArray) -> FloatArray:
    return np.repeat(mask[..., None], 3, axis=-1)


@node(
    "MaskPreview",
    required={"mask": ("MASK", {})},
    hidden={"prompt": "PROMPT", "extra_pnginfo": "EXTRA_PNGINFO"},
    is_output=True,
    category="mask",
    display_name="Preview Mask",
    schema="v3",
)
def preview_mask(
    mask: FloatArray, prompt: object, extra_pnginfo: object, context: NodeContext
) -> NodeResult:
    shown: NodeResult = preview_image.function(
        images=mask_to_image.function(mask),
        prompt=prompt,
        extra_pnginfo=extra_pnginfo,
        context=context,
    )
    return shown


@node(
    "ImageColorToMask",
    required={
        "image": ("IMAGE", {}),
        "color": (
            "INT",
            {"default": 0, "min": 0, "max": 0xFFFFFF, "step": 1, "display": "number"},
        ),
    },
    outputs=("MASK",),
    category="mask",
    schema="v3",
    batches="image",
)
def colour_to_mask(image: FloatArray, color: int) -> FloatArray:
    """Set where the image has exactly this colour, at 8 bits."""
    pixels = np.round(np.clip(image, 0, 1) * np.float32(255)).astype(np.uint8)
    colour = (color >> 16 & 0xFF, color >> 8 & 0xFF, color & 0xFF)
    mask: FloatArray = np.all(pixels[..., :3] == colour, axis=-1).astype(np.float32)
    return mask


@node(
    "LoadImageMask",
    required={
        "image": ([], {"image_upload": True}),
        "channel": (["alpha", "red", "green", "blue"],),
    },
    listed_choices=load_image.listed_choices,
    outputs=("MASK",),
    category="mask",
    display_name="Load Image (as Mask)",
    check=load_image.check,
    fingerprint=load_image.fingerprint,
)
def load_image_mask(image: str, channel: str, context: NodeContext) -> FloatArray:
    """One channel of an image file; alpha is turned over, as a mask says what is left out."""
    path = context.folders.locate(str(image))
    if path is None:
        raise FileNotFoundError(f"Invalid image file: {image}")
    with open_picture(path) as picture:
        pixels = to_mode(upright(picture), "RGBA")
    values = to_floats(pixels.getchannel(_CHANNELS.index(channel)))[None]
    return _ONE - values if channel == "alpha" else values


@node(
    "SplitImageWithAlpha",
    required={"image": ("IMAGE", {})},
    outputs=("IMAGE", "MASK"),
    category="mask/compositing",
    display_name="Split Image with Alpha",
    schema="v3",
    batches="image",
)
def split_image_with_alpha(image: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The colours, and what is transparent; an image without alpha is nowhere transparent."""
    colours = image[..., :3].copy()
    if image.shape[-1] > 3:
        return colours, _ONE - image[..., 3]
    return colours, np.zeros(image.shape[:3], np.float32)


@node(
    "JoinImageWithAlpha",
    required={"image": ("IMAGE", {}), "alpha": ("MASK", {})},
    outputs=("IMAGE",),
    category="mask/compositing",
    display_name="Join Image with Alpha",
    schema="v3",
)
def join_image_with_alpha(image: FloatArray, alpha: FloatArray) -> FloatArray:
    """The mask, at the image's size, says what becomes transparent; the shorter batch counts."""
    count = min(len(image), len(alpha))
    resized = resize(alpha[:count, ..., None], image.shape[2], image.shape[1], "bilinear")
    return np.concatenate((image[:count, ..., :3], _ONE - resized), axis=-1)


def repeat_to_length(batch: FloatArray, count: int) -> FloatArray:
    """The batch with so many items: it starts again at its end, or is cut off."""
    return batch if len(batch) == count else batch[np.arange(count) % len(batch)]


NODES = (
    image_to_mask,
    mask_to_image,
    preview_mask,
    colour_to_mask,
    load_image_mask,
    split_image_with_alpha,
    join_image_with_alpha,
)
