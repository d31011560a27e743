"""What a worker's models are: a list that an operator wrote. Names are hostile until checked."""

import re
from collections.abc import Sequence
from typing import Annotated

import msgspec

from comfyrail.errors import AddressRefused
from comfyrail.network.urls import read_web_url

MOST_FILES = 1000
LONGEST_PATH = 1024
LONGEST_SEGMENT = 255
PART_SUFFIX = ".part"

_UNSAFE = re.compile(r"[\x00-\x1f\x7f\\:*?\"<>|\ud800-\udfff]")

Size = Annotated[int, msgspec.Meta(ge=0, le=1 << 50)]
Sha256 = Annotated[str, msgspec.Meta(pattern="^[0-9a-fA-F]{64}$")]


class ModelFile(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, frozen=True):
    """One file, as a manifest has it."""

    name: str
    """As workflows write it; it may have folders in it: `sdxl/base.safetensors`."""
    folder: str
    """The kind of model, as ComfyUI names its folders: `checkpoints`, `loras`, …"""
    url: str
    sha256: Sha256
    size: Size
    secret: str | None = None
    """The name of a credential of the server that is sent as a bearer token."""

    @property
    def path(self) -> str:
        """Below the models folder."""
        return f"{self.folder}/{self.name}"


def find_fault(manifest: Sequence[ModelFile]) -> tuple[str, str] | None:
    """The first thing that is wrong: where it is (`[0].name`), and what, as a sentence."""
    if len(manifest) > MOST_FILES:
        return "", f"It has {len(manifest)} files; at most {MOST_FILES} are allowed."
    seen: dict[str, ModelFile] = {}
    for index, file in enumerate(manifest):
        for field in ("folder", "name"):
            fault = _fault_of_name(getattr(file, field))
            if fault is not None:
                return f"[{index}].{field}", fault
        if len(file.path.encode()) > LONGEST_PATH:
            return f"[{index}].name", f"The path is longer than {LONGEST_PATH} bytes."
        try:
            read_web_url(file.url)
        except AddressRefused as error:
            return f"[{index}].url", error.message
        same = seen.setdefault(file.path, file)
        if same.sha256.lower() != file.sha256.lower():
            return f"[{index}].name", f"{file.path} is there twice, with different content."
    return None


def is_safe_path(path: str) -> bool:
    """Whether a path, as `ModelFile.path` gives it, stays below the folder that it is put under."""
    return len(path.encode(errors="replace")) <= LONGEST_PATH and _fault_of_name(path) is None


def _fault_of_name(text: str) -> str | None:
    if not text or text.startswith("/") or _UNSAFE.search(text):
        return 'It must be a relative path without control characters and without \\ : * ? " < > |.'
    for segment in text.split("/"):
        if not segment or segment.startswith(".") or segment != segment.strip():
            return "No part of it may be empty, begin with a dot, or have spaces at its ends."
        if len(segment.encode()) > LONGEST_SEGMENT - len(PART_SUFFIX):
            return f"A part of it is longer than {LONGEST_SEGMENT - len(PART_SUFFIX)} bytes."
    if text.lower().endswith(PART_SUFFIX):
        return f"It may not end in {PART_SUFFIX}: that is a file that is not yet whole."
    return None
