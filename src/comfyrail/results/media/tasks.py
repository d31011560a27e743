"""What a media process can do: look into a file, and convert a picture."""

from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from comfyrail.results.media.findings import Findings
from comfyrail.results.media.messages import Answer, Convert, Converted, Look, Looked, Task
from comfyrail.results.media.unusable import is_of_the_disk, reason_of
from comfyrail.store.media import kind_of

_OF_TYPES = {
    "image/svg+xml": None,  # never rendered: it is a program
    "application/x-safetensors": "tensors",
    "application/zip": "archives",
}
_OF_MAIN_TYPES = {
    "image": "pictures",
    "video": "films",
    "audio": "films",
    "model": "models3d",
    "text": "texts",
}


class Reader(Protocol):
    """A module that knows a kind of files. Loaded when one comes: some need much."""

    def look_into(self, findings: Findings) -> None:
        """Note what can be found out; raise whatever goes wrong."""
        ...


def carry_out(task: Task) -> Answer:
    return _look(task) if isinstance(task, Look) else _convert(task)


def _look(task: Look) -> Looked:
    kind = kind_of(task.content_type)
    findings = Findings(Path(task.path), task.content_type, Path(task.folder), kind)
    reader = _reader_of(task.content_type)
    if reader is None:
        return findings.looked()
    try:
        reader.look_into(findings)
    except Exception as error:
        if is_of_the_disk(error):
            raise
        return findings.looked(reason_of(error))
    return findings.looked()


def _reader_of(content_type: str) -> Reader | None:
    main = content_type.partition("/")[0]
    name = _OF_TYPES.get(content_type, _OF_MAIN_TYPES.get(main))
    if name is None:
        return None
    return cast("Reader", import_module(f"comfyrail.results.media.{name}"))


def _convert(task: Convert) -> Converted:
    from comfyrail.results.media.conversion import convert  # noqa: PLC0415 - needs Pillow

    return Converted(file=convert(task))
