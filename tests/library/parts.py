"""What the tests of the library share."""

import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from PIL import Image

from comfyrail.ids import TenantId
from comfyrail.library.files import Files

LOCAL = TenantId("local")

INPUTS = [
    {"name": "width", "target": "1.width", "type": "integer", "minimum": 1, "maximum": 99},
    {"name": "prefix", "target": "Save", "type": "text", "default": "kept", "label": "File name"},
]


def png(color: str = "red") -> bytes:
    content = io.BytesIO()
    Image.new("RGB", (4, 3), color).save(content, "PNG")
    return content.getvalue()


def accept_all(files: Files) -> None:
    del files


def workflow_file(content: Any) -> dict[str, bytes | None]:
    return {"workflow.json": json.dumps(content).encode()}


def files_under(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def zipped(members: Mapping[str, bytes]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as bundle:
        for name, data in members.items():
            bundle.writestr(name, data)
    return content.getvalue()
