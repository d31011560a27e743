"""Nodes that save datasets to folders of the output folder."""

from pathlib import Path
from typing import Any

from comfyrail.engine.builtin.dataset_images import DATASET
from comfyrail.engine.builtin.dataset_texts import as_text
from comfyrail.engine.context import NodeContext
from comfyrail.engine.definition import node
from comfyrail.engine.folders import path_inside
from comfyrail.engine.pixels import FloatArray, encode_png

_CATEGORY = "dataset"
_COMPRESSION = 6
_TARGET = {
    "folder_name": ("STRING", {"default": "dataset", "multiline": False}),
    "filename_prefix": ("STRING", {"default": "image", "multiline": False}),
}


@node(
    "SaveImageDataSetToFolder",
    required={"images": ("IMAGE", {}), **_TARGET},
    hidden={"prompt": "PROMPT", "extra_pnginfo": "EXTRA_PNGINFO"},
    is_output=True,
    category=_CATEGORY,
    display_name="Save Image Dataset to Folder",
    takes_lists=True,
    **DATASET,
)
def save_images(
    *,
    images: list[FloatArray],
    folder_name: list[str],
    filename_prefix: list[str],
    context: NodeContext,
    **_: Any,
) -> None:
    """As PNG, numbered from 0; files of the same names are replaced."""
    _save(images, folder_name[0], filename_prefix[0], context)


@node(
    "SaveImageTextDataSetToFolder",
    required={
        "images": ("IMAGE", {}),
        "texts": ("STRING", {"multiline": False}),
        **_TARGET,
    },
    hidden={"prompt": "PROMPT", "extra_pnginfo": "EXTRA_PNGINFO"},
    is_output=True,
    category=_CATEGORY,
    display_name="Save Image and Text Dataset to Folder",
    takes_lists=True,
    **DATASET,
)
def save_images_and_texts(
    *,
    images: list[FloatArray],
    texts: list[str],
    folder_name: list[str],
    filename_prefix: list[str],
    context: NodeContext,
    **_: Any,
) -> None:
    """Each text beside its image, with the same name but for its end."""
    saved = _save(images, folder_name[0], filename_prefix[0], context)
    for path, text in zip(saved, texts, strict=False):
        path.with_name(path.name.replace(".png", ".txt")).write_text(
            as_text(text), encoding="utf-8"
        )


def _save(
    images: list[FloatArray], folder_name: str, prefix: str, context: NodeContext
) -> list[Path]:
    root = context.folders.output
    singles = [single for image in images for single in (image if image.ndim == 4 else [image])]
    saved = []
    for index, single in enumerate(singles):
        context.check_interrupt()
        path = path_inside(root, folder_name, f"{prefix}_{index:05d}.png")
        if path is None:
            raise ValueError(
                f"The folder {folder_name!r} with the prefix {prefix!r} leads outside of the "
                "output folder. Use a name, or folders and a name below it."
            )
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encode_png(single, {}, _COMPRESSION))
        saved.append(path)
    return saved


NODES = (save_images, save_images_and_texts)
