"""Nodes that save the images of a batch as one animation."""

import io
from typing import Any

from PIL import Image
from PIL.PngImagePlugin import PngInfo

from comfyrail.engine.builtin.embedding import texts_to_embed
from comfyrail.engine.context import NodeContext
from comfyrail.engine.definition import NodeResult, node
from comfyrail.engine.output_names import fill_in_tokens
from comfyrail.engine.pixels import FloatArray, to_picture

_CATEGORY = "image/animation"
_PREFIX = ("STRING", {"default": "ComfyUI", "multiline": False})
_FPS = ("FLOAT", {"default": 6.0, "min": 0.01, "max": 1000.0, "step": 0.01})
_WEBP_METHODS = {"default": 4, "fastest": 0, "slowest": 6}
_MODEL_TAG = 0x110
"""The EXIF tag that holds the prompt; what else there is goes into the tags below it."""


@node(
    "SaveAnimatedWEBP",
    required={
        "images": ("IMAGE", {}),
        "filename_prefix": _PREFIX,
        "fps": _FPS,
        "lossless": ("BOOLEAN", {"default": True}),
        "quality": ("INT", {"default": 80, "min": 0, "max": 100}),
        "method": ("COMBO", {"multiselect": False, "options": list(_WEBP_METHODS)}),
    },
    hidden={"prompt": "PROMPT", "extra_pnginfo": "EXTRA_PNGINFO"},
    is_output=True,
    category=_CATEGORY,
    schema="v3",
)
def save_animated_webp(
    *,
    images: FloatArray,
    filename_prefix: str,
    fps: float,
    lossless: bool,
    quality: int,
    method: str,
    prompt: Any,
    extra_pnginfo: Any,
    context: NodeContext,
) -> NodeResult:
    exif = Image.Exif()
    for index, (key, text) in enumerate(
        texts_to_embed(prompt, extra_pnginfo, context.folders).items()
    ):
        exif[_MODEL_TAG - index] = f"{key}:{text}"
    content = _encode(
        images,
        fps,
        context,
        format="WEBP",
        lossless=lossless,
        quality=quality,
        method=_WEBP_METHODS[method],
        exif=exif,
    )
    return _save(images, filename_prefix, content, ".webp", context, animated=len(images) > 1)


@node(
    "SaveAnimatedPNG",
    required={
        "images": ("IMAGE", {}),
        "filename_prefix": _PREFIX,
        "fps": _FPS,
        "compress_level": ("INT", {"default": 4, "min": 0, "max": 9}),
    },
    hidden={"prompt": "PROMPT", "extra_pnginfo": "EXTRA_PNGINFO"},
    is_output=True,
    category=_CATEGORY,
    schema="v3",
)
def save_animated_png(
    *,
    images: FloatArray,
    filename_prefix: str,
    fps: float,
    compress_level: int,
    prompt: Any,
    extra_pnginfo: Any,
    context: NodeContext,
) -> NodeResult:
    info = PngInfo()
    for key, text in texts_to_embed(prompt, extra_pnginfo, context.folders).items():
        # ComfyUI's own kind of chunk, behind the frames: readers of animations look no further.
        info.add(b"comf", f"{key}\0{text}".encode("latin-1", "replace"), after_idat=True)
    content = _encode(
        images, fps, context, format="PNG", pnginfo=info, compress_level=compress_level
    )
    return _save(images, filename_prefix, content, ".png", context, animated=True)


def _encode(images: FloatArray, fps: float, context: NodeContext, **options: Any) -> bytes:
    pictures = []
    for image in images:
        context.check_interrupt()
        pictures.append(to_picture(image))
    encoded = io.BytesIO()
    pictures[0].save(
        encoded, save_all=True, append_images=pictures[1:], duration=int(1000 / fps), **options
    )
    return encoded.getvalue()


def _save(
    images: FloatArray,
    prefix: str,
    content: bytes,
    suffix: str,
    context: NodeContext,
    *,
    animated: bool,
) -> NodeResult:
    height, width = images.shape[1:3]
    filled = fill_in_tokens(prefix, width=width, height=height, at=context.clock.now())
    file = context.output_names.save(context.folders.output, filled, content, suffix)
    shown = {"filename": file.filename, "subfolder": file.subfolder, "type": "output"}
    return NodeResult(ui={"images": [shown], "animated": [animated]})


NODES = (save_animated_webp, save_animated_png)
