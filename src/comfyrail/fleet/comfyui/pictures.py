"""Pictures that a worker sends over its WebSocket: previews, and outputs that go nowhere else."""

import struct
from dataclasses import dataclass

from comfyrail.errors import WorkerProtocolError
from comfyrail.fleet.comfyui.decoding import decode_reply

PREVIEW = 1
PREVIEW_WITH_METADATA = 4
METADATA_LIMIT = 64 << 10

_WORD = struct.Struct(">I")
_SIGNATURES = ((b"\xff\xd8\xff", "image/jpeg"), (b"\x89PNG\r\n\x1a\n", "image/png"))


@dataclass(frozen=True, slots=True)
class WorkerPicture:
    """`content_type` is what the bytes say, not the worker. The ids are None in the plain form:
    then it belongs to whatever runs.
    """

    content_type: str
    image: bytes
    prompt_id: str | None = None
    node_id: str | None = None


def parse_picture(frame: bytes) -> WorkerPicture | None:
    """Read a binary message; None for everything that is no picture."""
    if len(frame) < 2 * _WORD.size:
        return None
    (event,) = _WORD.unpack_from(frame)
    if event == PREVIEW:
        return _picture(frame[2 * _WORD.size :])
    if event == PREVIEW_WITH_METADATA:
        return _described_picture(frame)
    return None


def _described_picture(frame: bytes) -> WorkerPicture | None:
    (length,) = _WORD.unpack_from(frame, _WORD.size)
    start = 2 * _WORD.size
    if length > METADATA_LIMIT or start + length > len(frame):
        return None
    try:
        said = decode_reply(frame[start : start + length])
    except WorkerProtocolError:
        return None
    if not isinstance(said, dict):
        return None
    prompt_id = said.get("prompt_id")
    node_id = said.get("display_node_id") or said.get("node_id")
    return _picture(
        frame[start + length :],
        prompt_id if isinstance(prompt_id, str) else None,
        node_id if isinstance(node_id, str) else None,
    )


def _picture(
    image: bytes, prompt_id: str | None = None, node_id: str | None = None
) -> WorkerPicture | None:
    for signature, content_type in _SIGNATURES:
        if image.startswith(signature):
            return WorkerPicture(content_type, image, prompt_id, node_id)
    return None
