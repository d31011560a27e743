"""Inputs of nodes that name files of the input folder."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from comfyrail.workflow.catalog import InputPort, NodeCatalog, NodeType
from comfyrail.workflow.dynamic_inputs import DYNAMIC_TYPES, ports_of
from comfyrail.workflow.values import unwrap

FILE_CHOICES = frozenset((("LoadLatent", "latent"), ("OpenAIInputFiles", "file")))
"""Choices that are files of the input folder, though nothing in /object_info says so."""
FOLDER_CHOICES = frozenset(
    (name, "folder")
    for name in (
        "LoadImageDataSetFromFolder",
        "LoadImageTextDataSetFromFolder",
        "LoadImageSetFromFolderNode",
        "LoadImageTextSetFromFolderNode",
    )
)
"""Choices that are folders in it: all their files are meant."""
USUAL_LOADERS: Mapping[str, str] = {
    "LoadImage": "image",
    "LoadImageMask": "image",
    "LoadImageOutput": "image",
    "LoadAudio": "audio",
    "LoadVideo": "file",
    "Load3D": "model_file",
    "Load3DAnimation": "model_file",
}
"""For node types that no worker has told of yet."""


@dataclass(frozen=True, slots=True)
class FileInput:
    """`value` is what the input has: a name, or a link to a node that gives one."""

    node_id: str
    input: str
    value: Any
    port: InputPort | None = None
    is_folder: bool = False

    @property
    def is_for_inputs(self) -> bool:
        """Whether the editor offers files of the input folder for it, and not of another."""
        if self.port is None or len(self.port.spec) < 2:
            return True
        options = self.port.spec[1]
        folder = options.get("image_folder") if isinstance(options, Mapping) else None
        return folder in {None, "input"}


def takes_files(node_type: NodeType) -> bool:
    """Whether a node of this type may name a file or a folder of the input folder."""
    return any(
        port.takes_upload
        or port.type in DYNAMIC_TYPES
        or (node_type.name, port.name) in FILE_CHOICES
        or (node_type.name, port.name) in FOLDER_CHOICES
        for port in node_type.inputs.values()
    )


def file_inputs(
    nodes: Iterable[tuple[str, str, Mapping[str, Any]]], catalog: NodeCatalog
) -> Iterator[FileInput]:
    """Everything that may name a file, of nodes by id, type and inputs."""
    may_take = catalog.prepared(takes_files)
    for node_id, class_type, given in nodes:
        takes = may_take[class_type]
        if takes:
            yield from _of_node(node_id, catalog.types[class_type], given)
        elif takes is None:
            yield from _of_unknown(node_id, class_type, given)


def _of_node(node_id: str, node_type: NodeType, given: Mapping[str, Any]) -> Iterator[FileInput]:
    for name, port in ports_of(node_type, given).items():
        if name not in given:
            continue
        key = (node_type.name, name)
        if port.takes_upload or key in FILE_CHOICES:
            yield FileInput(node_id, name, unwrap(given[name]), port)
        elif key in FOLDER_CHOICES:
            yield FileInput(node_id, name, unwrap(given[name]), port, is_folder=True)


def _of_unknown(node_id: str, class_type: str, given: Mapping[str, Any]) -> Iterator[FileInput]:
    name = USUAL_LOADERS.get(class_type)
    if name is not None and name in given:
        yield FileInput(node_id, name, unwrap(given[name]))
