"""Messages of ComfyUI's WebSocket, and the line in which they wait for a slow reader."""

import asyncio
import struct
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from comfyrail.api.messages import encode

PREVIEW = 1
PREVIEW_WITH_METADATA = 4
IMAGE_CODES = {"image/jpeg": 1, "image/png": 2}
SPARE_ABOVE = 4 << 20
MOST_BYTES = 32 << 20
MOST_FRAMES = 50_000


@dataclass(frozen=True, slots=True)
class Frame:
    """`is_spare`: a slow client can do without it, a later one says more."""

    content: str | bytes
    is_spare: bool = False


def text_frame(kind: str, data: Mapping[str, Any], *, is_spare: bool = False) -> Frame:
    return Frame(encode({"type": kind, "data": data}).decode(), is_spare)


def status_frame(count: int, sid: str | None = None) -> Frame:
    data: dict[str, Any] = {"status": {"exec_info": {"queue_remaining": count}}}
    return text_frame("status", data if sid is None else {**data, "sid": sid})


def picture_frame(
    image: bytes,
    content_type: str,
    prompt_id: str,
    node_id: str | None,
    *,
    with_metadata: bool,
    is_spare: bool,
) -> Frame:
    """In the form that the client has asked for."""
    if not with_metadata:
        head = struct.pack(">II", PREVIEW, IMAGE_CODES.get(content_type, 1))
        return Frame(head + image, is_spare)
    described = encode(
        {
            "node_id": node_id,
            "prompt_id": prompt_id,
            "display_node_id": node_id,
            "parent_node_id": None,
            "real_node_id": node_id,
            "image_type": content_type,
        }
    )
    head = struct.pack(">II", PREVIEW_WITH_METADATA, len(described))
    return Frame(head + described + image, is_spare)


class Outbox:
    """Never waits. `is_broken`: the reader is so slow that it is given up."""

    def __init__(self) -> None:
        self._waiting: deque[Frame] = deque()
        self._bytes = 0
        self._news = asyncio.Event()
        self.is_broken = False

    def put(self, frame: Frame) -> None:
        if self._bytes > SPARE_ABOVE:
            if frame.is_spare:
                return
            self._drop_spare()
        self._waiting.append(frame)
        self._bytes += len(frame.content)
        if self._bytes > MOST_BYTES or len(self._waiting) > MOST_FRAMES:
            self.is_broken = True
        self._news.set()

    async def take(self) -> Frame | None:
        """The next one; None when it is broken."""
        while not self._waiting and not self.is_broken:
            self._news.clear()
            await self._news.wait()
        if self.is_broken:
            return None
        frame = self._waiting.popleft()
        self._bytes -= len(frame.content)
        return frame

    def _drop_spare(self) -> None:
        kept = [frame for frame in self._waiting if not frame.is_spare]
        if len(kept) < len(self._waiting):
            self._waiting = deque(kept)
            self._bytes = sum(len(frame.content) for frame in kept)
