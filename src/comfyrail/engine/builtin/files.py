"""Nodes that read and write image files."""

import os
import secrets
import string
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from PIL import Image, ImageOps, ImageSequence

from comfyrail.engine.context import NodeContext
from comfyrail.engine.definition import InputCheck, Literals, NodeInputs, NodeResult, node
from comfyrail.engine.embedded_texts import embedded_texts
from comfyrail.engine.file_hash import content_hash
from comfyrail.engine.folders import Folders
from comfyrail.engine.output_names import fill_in_tokens
from comfyrail.engine.pixels import FloatArray, encode_png, to_floats

# One for each process, so that two workers on one folder do not look at each other's names.
_TEMP_PREFIX = "ComfyUI_temp_" + "".join(secrets.choice(string.ascii_lowercase) for _ in range(5))

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".avif")
MASK_WITHOUT_ALPHA = 64
"""ComfyUI's mask of an image that has no alpha: this many zeros squared, whatever its size."""


def _list_images(folders: Folders) -> list[str]:
    if not folders.input.is_dir():
        return []
    with os.scandir(folders.input) as entries:
        return sorted(
            entry.name
            for entry in entries
            if entry.is_file() and entry.name.lower().endswith(IMAGE_SUFFIXES)
        )


def _find_missing_image(literals: Literals, folders: Folders) -> str | None:
    path = folders.locate(str(literals["image"]))
    return None if path and path.is_file() else f"Invalid image file: {literals['image']}"


def _hash_image(inputs: NodeInputs) -> str:
    return content_hash(_existing_path(inputs.folders, str(inputs.literals["image"])))


def _existing_path(folders: Folders, name: str) -> Path:
    path = folders.locate(name)
    if path is None:
        raise FileNotFoundError(f"Invalid image file: {name}")
    return path


@node(
    "LoadImage",
    required={"image": ([], {"image_upload": True})},
    listed_choices={"image": _list_images},
    outputs=("IMAGE", "MASK"),
    category="image",
    display_name="Load Image",
    check=InputCheck(("image",), _find_missing_image),
    fingerprint=_hash_image,
)
def load_image(image: str, context: NodeContext) -> tuple[FloatArray, FloatArray]:
    """All frames of an image file, turned as its EXIF says, and what is transparent in them."""
    frames: list[FloatArray] = []
    masks: list[FloatArray] = []
    with Image.open(_existing_path(context.folders, str(image))) as picture:
        # An MPO holds other views of the same picture, not an animation.
        single = picture.format == "MPO"
        for raw in ImageSequence.Iterator(picture):
            context.check_interrupt()
            frame = ImageOps.exif_transpose(raw)
            pixels = to_floats(_to_rgb(frame))
            if frames and pixels.shape != frames[0].shape:
                continue
            frames.append(pixels)
            masks.append(_mask_of(frame))
            if single:
                break
    return np.stack(frames), np.stack(masks)


def _to_rgb(frame: Image.Image) -> Image.Image:
    if frame.mode == "I":
        frame = frame.point(lambda value: value * (1 / 255))
    return frame.convert("RGB")


def _mask_of(frame: Image.Image) -> FloatArray:
    if frame.mode == "P" and "transparency" in frame.info:
        frame = frame.convert("RGBA")
    if "A" in frame.getbands():
        return np.float32(1) - to_floats(frame.getchannel("A"))
    return np.zeros((MASK_WITHOUT_ALPHA, MASK_WITHOUT_ALPHA), np.float32)


@node(
    "SaveImage",
    required={
        "images": ("IMAGE", {}),
        "filename_prefix": ("STRING", {"default": "ComfyUI"}),
    },
    hidden={"prompt": "PROMPT", "extra_pnginfo": "EXTRA_PNGINFO"},
    is_output=True,
    category="image",
    display_name="Save Image",
)
def save_image(
    images: FloatArray,
    filename_prefix: str,
    prompt: Any,
    extra_pnginfo: Any,
    context: NodeContext,
) -> NodeResult:
    return _save(
        images,
        filename_prefix,
        kind="output",
        texts=embedded_texts(prompt, extra_pnginfo),
        compress_level=4,
        context=context,
    )


@node(
    "PreviewImage",
    required={"images": ("IMAGE",)},
    hidden={"prompt": "PROMPT", "extra_pnginfo": "EXTRA_PNGINFO"},
    is_output=True,
    category="image",
    display_name="Preview Image",
)
def preview_image(
    images: FloatArray, prompt: Any, extra_pnginfo: Any, context: NodeContext
) -> NodeResult:
    return _save(
        images,
        _TEMP_PREFIX,
        kind="temp",
        texts=embedded_texts(prompt, extra_pnginfo),
        compress_level=1,
        context=context,
    )


def _save(
    images: FloatArray,
    prefix: str,
    *,
    kind: Literal["output", "temp"],
    texts: Mapping[str, str],
    compress_level: int,
    context: NodeContext,
) -> NodeResult:
    root: Path = getattr(context.folders, kind)
    height, width = images.shape[1:3]
    filled = fill_in_tokens(prefix, width=width, height=height, at=context.clock.now())
    saved = []
    for index, image in enumerate(images):
        context.check_interrupt()
        content = encode_png(image, texts, compress_level)
        name = filled.replace("%batch_num%", str(index))
        file = context.output_names.save(root, name, content)
        saved.append({"filename": file.filename, "subfolder": file.subfolder, "type": kind})
    return NodeResult(ui={"images": saved})


NODES = (load_image, save_image, preview_image)
