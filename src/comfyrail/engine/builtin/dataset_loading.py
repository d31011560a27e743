"""Nodes that load datasets from folders of the input folder."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from comfyrail.engine.builtin.dataset_images import DATASET, from_picture
from comfyrail.engine.context import NodeContext
from comfyrail.engine.definition import InputCheck, Literals, NodeInputs, node
from comfyrail.engine.folders import Folders, path_inside
from comfyrail.engine.picture_files import open_picture, to_mode
from comfyrail.engine.pixels import FloatArray
from comfyrail.workflow.catalog import OutputPort

_CATEGORY = "dataset"
_SUFFIXES = (".png", ".jpg", ".jpeg", ".webp")
_MOST_REPEATS = 10_000
_UPLOADED = "uploads"
"""A server's own folder there: the files of its users, each of whom may see only hers."""
_FOLDER: dict[str, Any] = {"folder": ([], {"multiselect": False})}
_IMAGES = OutputPort("images", "IMAGE", is_list=True)
_TEXTS = OutputPort("texts", "STRING", is_list=True)


def _list_folders(folders: Folders) -> list[str]:
    root = folders.input
    found = []
    for path, below, _ in os.walk(root):
        if Path(path) == root:
            below[:] = [name for name in below if name != _UPLOADED]
        else:
            found.append(Path(path).relative_to(root).as_posix())
    return sorted(found)


def _find_missing_folder(literals: Literals, folders: Folders) -> str | None:
    found = path_inside(folders.input, str(literals["folder"]))
    if found is not None and found.is_dir():
        return None
    return f"There is no folder '{literals['folder']}' in the input folder."


def _existing_folder(folders: Folders, name: str) -> Path:
    found = path_inside(folders.input, name)
    if found is None or not found.is_dir():
        raise FileNotFoundError(f"There is no folder '{name}' in the input folder.")
    return found


def _look_at_files(inputs: NodeInputs) -> list[list[Any]]:
    """Names, sizes and times of all files, so that a change of any is seen."""
    folder = _existing_folder(inputs.folders, str(inputs.literals["folder"]))
    found = []
    for path in sorted([*folder.glob("*"), *folder.glob("*/*")]):
        status = path.stat()
        found.append([path.relative_to(folder).as_posix(), status.st_size, status.st_mtime_ns])
    return found


def _is_image(path: Path, root: Path) -> bool:
    """Whether it has such a name, and is not a link that leads out of the folders for inputs."""
    return path.name.lower().endswith(_SUFFIXES) and path_inside(root, str(path)) is not None


@node(
    "LoadImageDataSetFromFolder",
    required=_FOLDER,
    listed_choices={"folder": _list_folders},
    outputs=(_IMAGES,),
    category=_CATEGORY,
    display_name="Load Image Dataset from Folder",
    check=InputCheck(("folder",), _find_missing_folder),
    fingerprint=_look_at_files,
    **DATASET,
)
def load_images(folder: str, context: NodeContext) -> tuple[list[FloatArray]]:
    """All images of a folder, in the order of their names."""
    root = _existing_folder(context.folders, str(folder))
    paths = [path for path in sorted(root.iterdir()) if _is_image(path, context.folders.input)]
    return (_load(paths, context),)


@node(
    "LoadImageTextDataSetFromFolder",
    required=_FOLDER,
    listed_choices={"folder": _list_folders},
    outputs=(_IMAGES, _TEXTS),
    category=_CATEGORY,
    display_name="Load Image and Text Dataset from Folder",
    check=InputCheck(("folder",), _find_missing_folder),
    fingerprint=_look_at_files,
    **DATASET,
)
def load_images_and_texts(folder: str, context: NodeContext) -> tuple[list[FloatArray], list[str]]:
    """Also those of its folders, as often as a number at the start of a folder's name says; and
    the text of each image, from the file of its name that ends in .txt.
    """
    root = _existing_folder(context.folders, str(folder))
    paths = list(_find_images(root, context.folders.input))
    return _load(paths, context), [_text_of(path, context.folders.input) for path in paths]


def _find_images(root: Path, allowed: Path) -> Iterator[Path]:
    for path in sorted(root.iterdir()):
        if _is_image(path, allowed):
            yield path
        elif path.is_dir() and path_inside(allowed, str(path)) is not None:
            images = [each for each in sorted(path.iterdir()) if _is_image(each, allowed)]
            yield from images * _repeats_of(path.name)


def _repeats_of(name: str) -> int:
    """3 for `3_cats`, as other programs for training name their folders; 1 for other names."""
    number = name.partition("_")[0]
    if not number.isdecimal():
        return 1
    if len(number) > len(str(_MOST_REPEATS)) or int(number) > _MOST_REPEATS:
        raise ValueError(f"The folder '{name}' asks for more than {_MOST_REPEATS} repeats.")
    return int(number)


def _text_of(path: Path, allowed: Path) -> str:
    beside = path_inside(allowed, str(path.with_name(path.name.replace(path.suffix, ".txt"))))
    if beside is None or not beside.is_file():
        return ""
    return beside.read_text(encoding="utf-8").strip()


def _load(paths: Sequence[Path], context: NodeContext) -> list[FloatArray]:
    """Each file once, however often it is named: the same image is then given several times."""
    if not paths:
        raise ValueError("There are no images in the folder.")
    loaded: dict[Path, FloatArray] = {}
    for path in paths:
        context.check_interrupt()
        if path not in loaded:
            with open_picture(path) as picture:
                loaded[path] = from_picture(to_mode(picture, "RGB"))[None]
    return [loaded[path] for path in paths]


NODES = (load_images, load_images_and_texts)
