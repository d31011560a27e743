"""Nodes that read and write image files."""

import os
import secrets
import string
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from PIL import Image

from comfyrail.engine.builtin.embedding import texts_to_embed
from comfyrail.engine.context import NodeContext
from comfyrail.engine.definition import (
    InputCheck,
    Literals,
    NodeInputs,
    NodeResult,
    define_node,
    node,
)
from comfyrail.engine.file_hash import content_hash
from comfyrail.engine.folders import Folders
from comfyrail.engine.output_names import fill_in_tokens
from comfyrail.engine.picture_files import frames_of, open_picture, to_mode, upright
from comfyrail.engine.pixels import FloatArray, encode_png, to_floats

# One for each process, so that two workers on one folder do not look at each other's names.
_TEMP_PREFIX = "ComfyUI_temp_" + "".join(secrets.choice(string.ascii_lowercase) for _ in range(5))

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".avif")
MASK_WITHOUT_ALPHA = 64
"""ComfyUI's mask of an image that has no alpha: this many zeros squared, whatever its size."""
_CAPTURED_SIDE = ("INT", {"default": 0, "min": 0, "max": 16384, "step": 1})


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


def _load_frames(image: str, context: NodeContext) -> tuple[FloatArray, FloatArray]:
    """All frames of an image file, turned as its EXIF says, and what is transparent in them."""
    frames: list[FloatArray] = []
    masks: list[FloatArray] = []
    with open_picture(_existing_path(context.folders, str(image))) as picture:
        for raw in frames_of(picture):
            context.check_interrupt()
            frame = upright(raw)
            pixels = to_floats(to_mode(frame, "RGB"))
            if frames and pixels.shape != frames[0].shape:
                continue
            frames.append(pixels)
            masks.append(_mask_of(frame))
    return np.stack(frames), np.stack(masks)


def _mask_of(frame: Image.Image) -> FloatArray:
    if frame.mode == "P" and "transparency" in frame.info:
        frame = frame.convert("RGBA")
    if "A" in frame.getbands():
        return np.float32(1) - to_floats(frame.getchannel("A"))
    return np.zeros((MASK_WITHOUT_ALPHA, MASK_WITHOUT_ALPHA), np.float32)


load_image = define_node(
    "LoadImage",
    _load_frames,
    required={"image": ([], {"image_upload": True})},
    listed_choices={"image": _list_images},
    outputs=("IMAGE", "MASK"),
    category="image",
    display_name="Load Image",
    check=InputCheck(("image",), _find_missing_image),
    fingerprint=_hash_image,
)

load_image_output = define_node(
    "LoadImageOutput",
    _load_frames,
    required={
        "image": (
            "COMBO",
            {
                "image_upload": True,
                "image_folder": "output",
                "remote": {
                    "route": "/internal/files/output",
                    "refresh_button": True,
                    "control_after_refresh": "first",
                },
            },
        )
    },
    outputs=("IMAGE", "MASK"),
    category="image",
    display_name="Load Image (from Outputs)",
    experimental=True,
    check=load_image.check,
    fingerprint=_hash_image,
)


@node(
    "WebcamCapture",
    required={
        "image": ("WEBCAM", {}),
        "width": _CAPTURED_SIDE,
        "height": _CAPTURED_SIDE,
        "capture_on_queue": ("BOOLEAN", {"default": True}),
    },
    outputs=("IMAGE",),
    category="image",
    display_name="Webcam Capture",
    check=load_image.check,
    fingerprint=_hash_image,
)
def load_capture(
    *, image: str, width: int, height: int, capture_on_queue: bool, context: NodeContext
) -> FloatArray:
    """The picture that the editor has taken and uploaded; the rest is for the editor."""
    del width, height, capture_on_queue
    return _load_frames(image, context)[0]


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
        texts=texts_to_embed(prompt, extra_pnginfo, context.folders),
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
        texts=texts_to_embed(prompt, extra_pnginfo, context.folders),
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


@node(
    "SaveImageWebsocket",
    required={"images": ("IMAGE",)},
    is_output=True,
    category="api/image",
    # A picture that was sent is gone: a result from the cache would send nothing.
    cacheable=False,
)
def send_images(images: FloatArray, context: NodeContext) -> NodeResult:
    """Send images to the client that asked, as PNG and without the graph in them."""
    for index, image in enumerate(images):
        context.send_picture(encode_png(image, {}, compress_level=1), "png")
        context.progress(index, len(images))
    return NodeResult()


NODES = (
    load_image,
    load_image_output,
    load_capture,
    save_image,
    preview_image,
    send_images,
)
