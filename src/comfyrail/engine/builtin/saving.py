"""Nodes that save images to files, or send them."""

import secrets
import string
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from comfyrail.engine.builtin.embedding import texts_to_embed
from comfyrail.engine.context import NodeContext
from comfyrail.engine.definition import NodeResult, node
from comfyrail.engine.output_names import fill_in_tokens
from comfyrail.engine.pixels import FloatArray, encode_png

# One for each process, so that two workers on one folder do not look at each other's names.
_TEMP_PREFIX = "ComfyUI_temp_" + "".join(secrets.choice(string.ascii_lowercase) for _ in range(5))


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


NODES = (save_image, preview_image, send_images)
