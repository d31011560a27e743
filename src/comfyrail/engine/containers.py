"""Opening films and sounds that may be made to do harm: as what they are, and nothing but them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn, cast

import av
from av.container import InputContainer

_DEMUXERS = {
    "video/mp4": "mov",
    "video/quicktime": "mov",
    "audio/mp4": "mov",
    "video/webm": "matroska",
    "video/x-matroska": "matroska",
    "audio/webm": "matroska",
    "video/x-msvideo": "avi",
    "video/ogg": "ogg",
    "audio/ogg": "ogg",
    "audio/flac": "flac",
    "audio/x-flac": "flac",
    "audio/mpeg": "mp3",
    "audio/wav": "wav",
    "audio/x-wav": "wav",
    "audio/aac": "aac",
}
"""By the type that the first bytes show. Others are not read: there are formats that are lists of
other files, or of addresses."""
_NOTHING_ELSE = {"protocol_whitelist": "none"}


class UnreadableContainer(ValueError):
    """The message says why."""


@contextmanager
def opened_container(path: Path, content_type: str) -> Iterator[InputContainer]:
    """The film or sound, with its header read. Raises UnreadableContainer, and av's errors."""
    demuxer = _DEMUXERS.get(content_type)
    if demuxer is None:
        raise UnreadableContainer(f"Files of the type {content_type} cannot be read here.")
    with path.open("rb") as file:
        if not file.read(1):
            raise UnreadableContainer("It is empty.")
        file.seek(0)
        with av.open(
            file,
            format=demuxer,
            container_options=_NOTHING_ELSE,
            metadata_errors="replace",
            io_open=_refuse,
        ) as container:
            yield cast("InputContainer", container)


def _refuse(*_: Any) -> NoReturn:
    raise PermissionError("A file that is looked at leads to no others.")
